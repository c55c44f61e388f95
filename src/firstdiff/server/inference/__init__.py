"""Models that run in a browser: their files, what they compute there, and how that compares with Python."""
