"""Files: our own, and the public world's, in and out."""
