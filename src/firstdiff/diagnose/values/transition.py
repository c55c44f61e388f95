"""Hypothesis: another update rule from one step of a loop to the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.diagnose.values.mixtures import mixture_of
from firstdiff.diagnose.values.sides import Sides
from firstdiff.diagnose.values.uniform_noise import uniform_kernel

_NEAR = 1e-3
_DOUBT = 0.1


class TransitionKernel(Hypothesis):
    """A loop goes from one step to the next by another rule.

    A sampler mixes what it has with what the model says: DDPM, DDIM, Euler and the others each with their own weights,
    and a port that has another one of them, or a sign or a root wrong in it, goes elsewhere a little at every step.

    Tested where what comes out of a step is what the next step is given: on both sides it is a weighted sum of what
    goes in, with other weights. Also on the kernels of discrete diffusion with uniform noise: on both sides every row
    holds one number but for one place, and the numbers are others. Compute the step by the reference's rule.
    """

    code = "transition.kernel"

    def applies(self, case: Case) -> bool:
        return case.comparable and case.role == "output" and Sides.of(case).real

    def test(self, case: Case) -> Iterator[Explanation]:
        yield from self._of_uniform_noise(case)
        if case.nearby.goes_round:
            yield from self._of_mixtures(case)

    def _of_uniform_noise(self, case: Case) -> Iterator[Explanation]:
        reference, candidate = uniform_kernel(case.reference), uniform_kernel(case.candidate)
        if reference is None or candidate is None or abs(reference.total - 1.0) > _NEAR or reference.redraw <= 0:
            return
        if not np.array_equal(reference.places, candidate.places):
            return
        fit = case.fit(candidate.made)
        lost = "" if abs(candidate.total - 1.0) <= _NEAR else f", so that its rows sum to {candidate.total:.4g}"
        yield Explanation(
            cause=self.code,
            fit=fit,
            evidence=f"the kernel has {candidate.words}, "
            f"in place of {reference.redraw:.4g} and {reference.keep:.4g}{lost}: {case.falls_to(fit)}",
            fix=f"compute {case.name} by the reference's rule: the noise over the number of classes, and what is kept",
            assumed=2,
            implies=("values.clipped", "offset.constant", "scale.constant", "bias.missing"),
            doubt=_DOUBT,
            predicted=candidate.made,
        )

    def _of_mixtures(self, case: Case) -> Iterator[Explanation]:
        reference, candidate = mixture_of(case, "reference"), mixture_of(case, "candidate")
        if reference is None or candidate is None or reference.keys != candidate.keys:
            return
        if np.allclose(reference.weights, candidate.weights, rtol=_NEAR, atol=_NEAR):
            return
        fit = case.fit(candidate.made)
        yield Explanation(
            cause=self.code,
            fit=fit,
            evidence=f"the step gives {candidate.words} in place of {reference.words}: {case.falls_to(fit)}",
            fix=f"compute {case.name} by the reference's rule",
            assumed=int(candidate.weights.size),
            implies=("residual.missing", "scale.constant", "noise.schedule", "op.skipped"),
            doubt=_DOUBT,
            predicted=candidate.made,
        )


HYPOTHESIS: Final = TransitionKernel()
