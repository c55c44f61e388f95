"""The architectures: tiny, random, run for real."""

from firstdiff.testing.zoo.architectures.table import ARCHITECTURES, Architecture, Built

__all__ = ["ARCHITECTURES", "Architecture", "Built"]
