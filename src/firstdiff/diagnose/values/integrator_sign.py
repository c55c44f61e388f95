"""Hypothesis: an integrator steps in the wrong direction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.diagnose.values.mixtures import Mixture, mixture_of
from firstdiff.diagnose.values.sides import Sides

_NEAR = 1e-3


class IntegratorSign(Hypothesis):
    """A loop goes in the wrong direction: it subtracts the step that the reference adds, or the other way round.

    Flow matching and diffusion integrate a velocity: `x + dt * v` from noise at 0 to data at 1, `x - dt * v` where time
    runs from 1 to 0. Ports mix the two, or give dt or v the wrong sign.

    Tested where a step's result is what the next step is given: both sides keep the state as it is and add the same
    share of the same tensor, with opposite signs. Turn the sign of dt, or of the velocity.
    """

    code = "integrator.sign"

    def applies(self, case: Case) -> bool:
        return case.comparable and case.role != "input" and Sides.of(case).real and case.nearby.goes_round

    def test(self, case: Case) -> Iterator[Explanation]:
        reference, candidate = mixture_of(case, "reference"), mixture_of(case, "candidate")
        if reference is None or candidate is None or reference.keys != candidate.keys:
            return
        turned = _turned(reference, candidate)
        if turned is None:
            return
        fit = case.fit(candidate.made)
        yield Explanation(
            cause=self.code,
            fit=fit,
            evidence=f"the step gives {candidate.words} in place of {reference.words}: {case.falls_to(fit)}",
            fix=f"turn the sign of {turned} in {case.name}, or that of its step",
            implies=("transition.kernel", "residual.missing", "sign.flip", "op.skipped"),
            predicted=candidate.made,
        )


def _turned(reference: Mixture, candidate: Mixture) -> str | None:
    """The one part whose sign is turned while the state is kept with a weight of 1; None where that is not so."""
    opposite = np.isclose(reference.weights, -candidate.weights, rtol=_NEAR, atol=0).all(axis=1)
    kept = np.isclose(reference.weights, candidate.weights, rtol=_NEAR, atol=_NEAR).all(axis=1)
    state = kept & np.isclose(reference.weights, 1.0, rtol=_NEAR).all(axis=1)
    if int(opposite.sum()) != 1 or not state.any() or not (opposite | kept).all():
        return None
    return reference.keys[int(np.flatnonzero(opposite)[0])]


HYPOTHESIS: Final = IntegratorSign()
