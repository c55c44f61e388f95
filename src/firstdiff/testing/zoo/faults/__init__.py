"""The faults, by kind: each one small function that plants one mistake for real."""

from __future__ import annotations

from importlib import import_module

from firstdiff.testing.zoo.fault import Fault, registered_faults

# importing a module registers its faults
_MODULES = (
    *("activations", "attention", "conditioning", "convolutions", "inputs", "layouts", "norms", "positions"),
    *("precision", "sampling", "sound", "structure", "unseen", "values", "weights"),
)
for _name in _MODULES:
    import_module(f"{__name__}.{_name}")
FAULTS: dict[str, Fault] = registered_faults()

__all__ = ["FAULTS", "Fault"]
