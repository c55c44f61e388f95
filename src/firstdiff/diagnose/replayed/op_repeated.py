"""Hypothesis: an operation applied twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.diagnose.hypothesis import Explanation
from firstdiff.ops import Plan, arithmetic

_MAIN = "input"
_DOUBT = 0.1


class OpRepeated(Counterfactual):
    """An operation was applied twice.

    A norm, an activation or a scale is in the module and in the code around it as well; or a whole layer is run
    twice.

    Tested by applying the operation to its own output; and for a block, by whether its parts were called once more
    and given what the block should have given back. Apply it once.
    """

    code = "op.repeated"

    def applies(self, case: Case) -> bool:
        return case.comparable and case.role != "input"

    def test(self, case: Case) -> Iterator[Explanation]:
        yield from super().test(case)
        for key, given in case.nearby.run_again():
            fit = case.floor_of(given).fit(case.expected)
            yield Explanation(
                cause=self.code,
                fit=fit,
                evidence=(
                    f"the candidate runs {case.name} again, on what the reference gives back: {key} differs from that "
                    f"by {fit.max_abs:.2g}"
                ),
                fix=f"run {case.name} once",
            )

    def variants(self, trial: Trial) -> Iterator[Variant]:
        if _MAIN not in trial.plan.arrays or trial.function in (arithmetic.add, arithmetic.sub):
            return
        twice = _twice(trial.plan)
        if twice is not None:
            what = f"with {trial.key} applied twice"
            yield Variant(plan=twice, what=what, fix=f"apply {trial.key} once", doubt=_DOUBT)


def _twice(plan: Plan) -> Plan | None:
    try:
        once = plan.run()["0"]
    except ValueError:
        return None
    if once.shape != np.shape(plan.arrays[_MAIN]) or np.asarray(plan.arrays[_MAIN]).dtype.kind not in "fV":
        return None
    return plan.on(**{_MAIN: once})


HYPOTHESIS: Final = OpRepeated()
