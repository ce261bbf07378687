"""Checkpoints: the native format, Hugging Face, llama2.c and word vectors."""
