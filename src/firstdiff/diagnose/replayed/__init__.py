"""Causes found by computing the reference's operation again with one thing changed."""
