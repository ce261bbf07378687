"""Lessons that run the library step by step, and worked examples that it recomputes."""
