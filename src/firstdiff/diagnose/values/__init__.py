"""Hypotheses that need only the values of both sides."""
