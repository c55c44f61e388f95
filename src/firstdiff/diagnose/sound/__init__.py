"""Causes that only sound has: each asks the audio report of its row, and puts what that found to the test."""
