"""What to learn from: built-in data, files of one's own, and batches of both."""
