"""Hypothesis: an operation left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.diagnose.hypothesis import Explanation
from firstdiff.dtypes import doubles
from firstdiff.ops import activations

_NO_INPUTS = ("weight", "bias", "mask", "mat2", "batch2")
# many mistakes come down to it
_DOUBT = 0.15


class OpSkipped(Counterfactual):
    """An operation, or a whole block, was left out.

    The candidate's output is what went in: a layer that is not in the list, a condition that is never true, an early
    return.

    Tested by taking what goes into the operation, or into the block, as its output. Run it.
    """

    code = "op.skipped"

    def applies(self, case: Case) -> bool:
        return case.comparable

    def variants(self, trial: Trial) -> Iterator[Variant]:
        for name, array in trial.plan.arrays.items():
            if isinstance(array, np.ndarray) and np.ndim(array) > 0 and name not in _NO_INPUTS:
                yield Variant(
                    plan=trial.plan.with_function(activations.identity).on(input=array),
                    what=f"as if {trial.key} gave back its {name}",
                    fix=f"run {trial.key}",
                    doubt=_DOUBT,
                )

    def test(self, case: Case) -> Iterator[Explanation]:
        yield from super().test(case)
        for both in case.inputs.values():
            if both.candidate is not None and _same_shape(both.candidate, case):
                predicted = doubles(both.candidate[case.part])
                fit = case.fit(predicted)
                yield Explanation(
                    cause=self.code,
                    fit=fit,
                    evidence=f"as if {case.key} gave back {both.key} {case.falls_to(fit)}",
                    fix=f"run {case.name}",
                    predicted=predicted,
                    doubt=0.0 if case.nearby.left_out else _DOUBT,
                    implies=("residual.missing",) if case.nearby.left_out else (),
                )


def _same_shape(array: Any, case: Case) -> bool:
    whole = case.candidate_whole
    return whole is not None and np.shape(array) == whole.shape


HYPOTHESIS: Final = OpSkipped()
