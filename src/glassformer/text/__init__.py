"""Words to numbers: tokenizers, trained from text and read from files."""
