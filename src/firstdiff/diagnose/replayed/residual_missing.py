"""Hypothesis: a residual sum with one operand left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.ops import activations, arithmetic


class ResidualMissing(Counterfactual):
    """A residual connection is missing.

    A block adds what went into it to what it computed. Without that, the rest of the model gets the branch alone, or
    the input alone, or the sum of the wrong two.

    Tested by leaving out either side of the sum. Add both.
    """

    code = "residual.missing"
    functions = (arithmetic.add, arithmetic.addcmul, arithmetic.lerp)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        arrays = trial.plan.arrays
        first, second = arrays["input"], arrays.get("other", arrays.get("end"))
        if trial.function is arithmetic.addcmul:
            second = np.asarray(arrays["tensor1"], dtype=np.float64) * np.asarray(arrays["tensor2"], dtype=np.float64)
        if second is None or np.shape(first) != np.shape(second) or np.ndim(first) < 2:
            return
        for left, kept in ((second, first), (first, second)):
            yield Variant(
                plan=trial.plan.with_function(activations.identity).on(input=kept),
                what=f"without one side of the sum ({_in_words(trial, left)})",
                fix=f"add both sides in {trial.key}",
                implies=() if trial.case.nearby.left_out else ("op.skipped",),
            )


def _in_words(trial: Trial, left: object) -> str:
    """The recorded tensor that was left out."""
    for both in (*trial.case.inputs.values(), *trial.case.sources):
        if both.candidate is left or (
            both.candidate is not None and isinstance(left, np.ndarray) and np.array_equal(both.candidate, left)
        ):
            return both.key
    return "the second" if left is trial.plan.arrays.get("other") else "the first"


HYPOTHESIS: Final = ResidualMissing()
