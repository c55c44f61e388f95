"""Hypotheses that compute the reference's operation again with one change."""
