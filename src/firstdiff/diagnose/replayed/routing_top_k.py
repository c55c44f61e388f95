"""Hypothesis: another number of experts chosen."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.diagnose.hypothesis import Explanation, Fit
from firstdiff.dtypes import doubles
from firstdiff.ops import selecting

_MOST = 64
_NEAR = 1e-4
_IMPLIES = ("pool.kind", "scale.constant", "scale.row", "values.constant", "op.skipped", "layout.pad", "layout.shard")


class RoutingTopK(Counterfactual):
    """Another number of experts, or of candidates, is chosen.

    A mixture of experts sends each token to the best few of them (`num_experts_per_tok`, `top_k`); with another number
    the weights of those that are chosen add up to something else, and experts are left out or come in. Samplers choose
    the best few tokens in the same way.

    Tested by choosing another number, or the least in place of the greatest, and going on from there to the row that
    differs. Choose as many as the reference.
    """

    code = "routing.top_k"
    functions = (selecting.topk,)

    def applies(self, case: Case) -> bool:
        return super().applies(case) if case.comparable else case.op == "topk"

    def test(self, case: Case) -> Iterator[Explanation]:
        if case.comparable:
            yield from super().test(case)
        else:
            yield from self._of_the_choice(case)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        right = int(trial.plan.settings["k"])
        every = np.shape(trial.plan.arrays["input"])[int(trial.plan.settings["dim"])]
        fix = f"choose {right} in {trial.key}"
        for count in range(1, min(every, _MOST) + 1):
            if count != right:
                what = f"with {count} chosen in place of {right}"
                yield Variant(plan=trial.plan.changed(k=count), what=what, fix=fix, implies=_IMPLIES)
        turned = trial.plan.changed(largest=not trial.plan.settings["largest"])
        yield Variant(plan=turned, what="with the other end chosen", fix=fix, implies=_IMPLIES)

    def _of_the_choice(self, case: Case) -> Iterator[Explanation]:
        """More or fewer along the last axis, and those that both sides have agree."""
        reference, candidate = case.reference_as_recorded, case.candidate_as_recorded
        if reference is None or candidate is None or reference.ndim < 1 or reference.shape[:-1] != candidate.shape[:-1]:
            return
        count = min(reference.shape[-1], candidate.shape[-1])
        one, other = (doubles(side[..., :count]) for side in (reference, candidate))
        if np.abs(one - other).max(initial=0.0) <= _NEAR * max(float(np.abs(one).max(initial=0.0)), 1e-30):
            yield Explanation(
                cause=self.code,
                fit=Fit(0.0, 0.0, inf),
                evidence=f"{candidate.shape[-1]} are chosen in place of {reference.shape[-1]}; the first {count} agree",
                fix=f"choose {reference.shape[-1]} in {case.key}",
                implies=_IMPLIES,
            )


HYPOTHESIS: Final = RoutingTopK()
