"""Words to numbers: tokenizers, learnt from text and read from files."""
