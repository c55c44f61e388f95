"""Hypotheses that need nothing but the values of both sides, one file each."""
