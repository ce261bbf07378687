"""Learning: one loop for every recipe, and the folder that a run lives in."""
