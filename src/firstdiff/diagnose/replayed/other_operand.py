"""Hypothesis: an operation read another tensor in place of its input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant


class OtherOperand(Counterfactual):
    """An operation is computed from an earlier tensor in the place of one of its inputs.

    The memory of an input was given to another value before it was read, or an index names the wrong value. What was
    recorded of the input is right, and what the operation gives is not.

    Tested by computing the operation with every earlier value of the candidate that would fit into the same memory.
    Keep the input's memory until the operation has run.
    """

    code = "values.stale"

    def variants(self, trial: Trial) -> Iterator[Variant]:
        if trial.key != trial.case.key:
            return
        for item in trial.case.nearby.overwritten():
            for changed in _changed(trial.plan.arrays, item.own, item.other):
                yield Variant(
                    plan=trial.plan.on(**changed),
                    what=f"computed from {item.other_key} in place of {item.key}",
                    fix=f"see why {trial.key} reads {item.other_key}: {item.key} lost its memory too early",
                    implies=("values.uncorrelated",),
                )


def _changed(arrays: Any, own: np.ndarray, other: np.ndarray) -> Iterator[dict[str, Any]]:
    """Put one array for another, in each place that holds it."""
    for name, held in arrays.items():
        if isinstance(held, np.ndarray) and _is(held, own):
            yield {name: other}
        elif isinstance(held, tuple):
            for at, part in enumerate(held):
                if isinstance(part, np.ndarray) and _is(part, own):
                    yield {name: (*held[:at], other, *held[at + 1 :])}


def _is(held: np.ndarray, own: np.ndarray) -> bool:
    return held.shape == own.shape and np.array_equal(held, own)


HYPOTHESIS: Final = OtherOperand()
