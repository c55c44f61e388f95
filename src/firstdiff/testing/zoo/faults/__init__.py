"""The faults, by kind: each one small function that plants one mistake for real."""

from firstdiff.testing.zoo.faults import (
    activations,
    attention,
    conditioning,
    convolutions,
    inputs,
    layouts,
    norms,
    positions,
    precision,
    sampling,
    sound,
    structure,
    unseen,
    values,
    weights,
)
from firstdiff.testing.zoo.faults.registry import Fault, entered

# whatever is imported here enters its faults
_MODULES = (
    activations,
    attention,
    conditioning,
    convolutions,
    inputs,
    layouts,
    norms,
    positions,
    precision,
    sampling,
    sound,
    structure,
    unseen,
    values,
    weights,
)
FAULTS: dict[str, Fault] = entered()

__all__ = ["FAULTS", "Fault"]
