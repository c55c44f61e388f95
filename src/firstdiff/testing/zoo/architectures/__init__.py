"""The architectures of the zoo: tiny models with random weights that really run."""

from firstdiff.testing.zoo.architectures.table import ARCHITECTURES, Architecture, Built

__all__ = ["ARCHITECTURES", "Architecture", "Built"]
