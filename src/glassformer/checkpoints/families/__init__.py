"""Hugging Face's families: what their config.json means here, and how ours is written there, one family a file."""
