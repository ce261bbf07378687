"""Our name and theirs for every tensor, one family a file, data only."""
