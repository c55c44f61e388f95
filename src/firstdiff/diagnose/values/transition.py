"""Another rule from one step of a loop to the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.diagnose.values.mixtures import mixture_of
from firstdiff.diagnose.values.sides import Sides

_NEAR = 1e-3
_DOUBT = 0.1


class TransitionKernel(Hypothesis):
    """A loop goes from one step to the next by another rule.

    A sampler mixes what it has with what the model says: DDPM, DDIM, Euler and the others each with their own weights,
    and a port that has another one of them, or a sign or a root wrong in it, goes elsewhere a little at every step.

    Tested where what comes out of a step is what the next step is given: on both sides it is a weighted sum of what
    goes in, with other weights. Compute the step by the reference's rule.
    """

    code = "transition.kernel"

    def applies(self, case: Case) -> bool:
        return case.comparable and case.role == "output" and Sides.of(case).real and case.nearby.goes_round

    def test(self, case: Case) -> Iterator[Explanation]:
        ours, theirs = mixture_of(case, "reference"), mixture_of(case, "candidate")
        if ours is None or theirs is None or ours.keys != theirs.keys:
            return
        if np.allclose(ours.weights, theirs.weights, rtol=_NEAR, atol=_NEAR):
            return
        fit = case.fit(theirs.made)
        yield Explanation(
            cause=self.code,
            fit=fit,
            evidence=f"the step gives {theirs.words} in place of {ours.words}: {case.falls_to(fit)}",
            fix=f"compute {case.name} by the reference's rule",
            assumed=int(theirs.weights.size),
            implies=("residual.missing", "scale.constant", "noise.schedule", "op.skipped"),
            doubt=_DOUBT,
            predicted=theirs.made,
        )


HYPOTHESIS: Final = TransitionKernel()
