"""The faults, by kind: each one small function that plants one mistake for real."""

from firstdiff.testing.zoo.fault import Fault, registered_faults
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
FAULTS: dict[str, Fault] = registered_faults()

__all__ = ["FAULTS", "Fault"]
