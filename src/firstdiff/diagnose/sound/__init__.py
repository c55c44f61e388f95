"""Hypotheses for audio, which test the findings of the row's audio report."""
