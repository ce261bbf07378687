"""What a loaded model is asked: the class of a text, its vector, texts near it, a word behind a mask; one file each."""
