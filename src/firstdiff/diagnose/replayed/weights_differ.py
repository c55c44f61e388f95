"""Hypothesis: the weights differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from firstdiff.diagnose.case import Both
from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.diagnose.replayed.other_weights import other_weights
from firstdiff.dtypes import doubles
from firstdiff.ops import linear

_SLIGHT = 1e-2
_IMPLIES = ("scale.channel", "offset.channel", "scale.row", "values.uncorrelated")


class WeightsDiffer(Counterfactual):
    """The candidate has other weights.

    The operation is right and its weights are not: another checkpoint, another layer's, only a part loaded, or
    changed on the way.

    Tested, where the candidate recorded its weights, by computing the operation with them: what differs in the
    weights must explain what differs in the output. Where it did not, weights are looked for that give its output
    from its inputs for every token alike; if there are any, the operation is of the right kind. Compare how both
    sides load the weights.
    """

    code = "weights.differ"

    def variants(self, trial: Trial) -> Iterator[Variant]:
        recorded = _recorded(trial)
        differ = {name: both for name, both in recorded.items() if both.differs or _lies_otherwise(both)}
        fix = f"load the reference's weights into {trial.key}"
        if differ:
            arrays = {name: _in_shape(both.candidate, trial.plan.arrays[name]) for name, both in differ.items()}
            names = ", ".join(both.key.removesuffix(":param") for both in differ.values())
            order = ", the reference's in another order," if not any(both.differs for both in differ.values()) else ""
            what = f"with the candidate's own {names}{order}"
            yield Variant(plan=trial.plan.on(**arrays), what=what, fix=fix, implies=_IMPLIES)
        elif not recorded and trial.function in _SOLVABLE:
            yield from other_weights(trial, fix)


_SOLVABLE = (linear.linear, linear.addmm)


def _recorded(trial: Trial) -> dict[str, Both]:
    """The weights of an operation that both sides recorded, by the operator's name for them."""
    found: dict[str, Both] = {}
    for name, array in trial.plan.arrays.items():
        both = trial.case.params.get(name) or _holding(trial.case.params.values(), array)
        if both is not None and array is not None and both.reference is not None and both.candidate is not None:
            found[name] = both
    return found


def _holding(params: Iterable[Both], array: Any) -> Both | None:
    """The weight that an array is: functions and nodes have numbers for their weights, not names."""
    if not isinstance(array, np.ndarray):
        return None
    return next((both for both in params if both.reference is not None and np.array_equal(both.reference, array)), None)


def _lies_otherwise(both: Both) -> bool:
    """True if two weights of one shape differ by more than a little."""
    reference, candidate = both.reference, both.candidate
    if reference is None or candidate is None or reference.shape != candidate.shape:
        return False
    one, other = doubles(reference), doubles(candidate)
    return bool(np.abs(one - other).max(initial=0.0) > _SLIGHT * np.abs(one).max(initial=0.0))


def _in_shape(values: np.ndarray | None, like: Any) -> np.ndarray | None:
    return values.reshape(np.shape(like)) if values is not None and values.size == np.size(like) else values


HYPOTHESIS: Final = WeightsDiffer()
