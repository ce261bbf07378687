"""Producing tokens."""
