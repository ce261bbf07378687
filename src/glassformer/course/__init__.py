"""Lessons that run the library step by step; what they say is computed while they say it."""
