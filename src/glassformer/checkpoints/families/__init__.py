"""Hugging Face families as tables: settings and tensor names, read in both directions, one architecture per file."""
