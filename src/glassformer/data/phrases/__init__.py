"""The phrase book from the inside: its words, its grammar, and the kinds of sentence it can say."""
