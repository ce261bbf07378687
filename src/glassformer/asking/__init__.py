"""What a loaded model is asked: the class of a text, its vector, the word behind a mask; one file each."""
