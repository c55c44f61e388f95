"""Hypothesis: weight normalisation not folded into the weight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.dtypes import doubles
from firstdiff.ops import conv, linear

_NAMES = (
    ("weight_g", "weight_v"),
    ("parametrizations.weight.original0", "parametrizations.weight.original1"),
)
_IMPLIES = ("weights.differ", "scale.channel", "scale.constant", "values.uncorrelated")


class WeightsUnfolded(Counterfactual):
    """A weight that is kept as a direction and a length is used without putting the two together.

    Weight normalisation stores `weight_v` and `weight_g`; the weight is `weight_g * weight_v / |weight_v|`, the length
    taken for each index of the first axis. Ports take `weight_v` for the weight, forget to divide by its length, leave
    out `weight_g`, or take the length over the wrong axis, as transposed convolutions invite to.

    Tested by computing the operation with the weight in each of these forms. Fold the two when loading:
    `weight_g * weight_v / |weight_v|`.
    """

    code = "weights.unfolded"
    functions = (conv.conv, conv.conv_transpose, linear.linear)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        held = _length_and_direction(trial.case)
        weight = trial.plan.arrays.get("weight")
        if held is None or weight is None or np.shape(weight) != held[1].shape:
            return
        for what, other in _forms(*held):
            if other.shape == np.shape(weight):
                yield Variant(
                    plan=trial.plan.on(weight=other),
                    what=what,
                    fix=f"fold the weight of {trial.key} when loading it: weight_g * weight_v / |weight_v|",
                    implies=_IMPLIES,
                )


def _length_and_direction(case: Case) -> tuple[np.ndarray, np.ndarray] | None:
    for names in _NAMES:
        parts = [case.params[name].reference if name in case.params else None for name in names]
        if parts[0] is not None and parts[1] is not None:
            return doubles(parts[0]), doubles(parts[1])
    return None


def _forms(length: np.ndarray, direction: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The weights that mistakes make of a length g and a direction v."""
    each = tuple(axis for axis in range(direction.ndim) if length.shape[axis] == 1) or None
    norm = np.sqrt(np.sum(direction**2, axis=each, keepdims=True))
    yield "with weight_v as the weight", direction
    yield "with weight_g * weight_v, not divided by its length,", length * direction
    yield "with weight_v / |weight_v|, without weight_g,", direction / norm
    yield "with the length of the whole weight_v", length * direction / np.sqrt(np.sum(direction**2))
    if direction.ndim > 1 and direction.shape[0] == direction.shape[1]:
        other = np.sqrt(np.sum(direction**2, axis=(0, *range(2, direction.ndim)), keepdims=True))
        yield "with the length taken over the wrong axis", length.swapaxes(0, 1) * direction / other


HYPOTHESIS: Final = WeightsUnfolded()
