"""What was computed, and what is known, as something to look at."""
