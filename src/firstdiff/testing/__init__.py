"""The public test kit: planted faults and healthy pairs to measure comparison tools with."""
