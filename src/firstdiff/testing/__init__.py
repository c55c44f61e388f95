"""The public test kit: what others can measure themselves with."""
