"""One file for each lesson."""
