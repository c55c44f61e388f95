"""Hypothesis: values that belong to another step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific
from firstdiff.diagnose.rows import OtherCall
from firstdiff.diagnose.values.uniform_noise import staggered

_FARTHEST = 8
# the score stands just before what is made of it
_MOST_EARLIER = 4
_NEAR = 1e-4
_LEAST_STEPS = 3
# one step alone may be a buffer that was not written again, or chance
_ONE_STEP, _SEVERAL_STEPS = 0.3, 0.05


class ScoreStagger(Hypothesis):
    """A loop is a step ahead, or behind: each step has what belongs to the next one, or to the one before.

    A sampler asks the model with the time of the step it goes to in place of the one it comes from, counts its steps
    from 1, or uses the score of the step before. Every number is right, and one step off.

    Tested on the same tensor at the other steps: with one distance between the two sides, the candidate's are
    the reference's. Take what belongs to the step.

    In discrete diffusion scores are staggered by a formula: so many times the score, less a share of its sum, which
    keeps the sum. There the candidate has other factors: a sign, an order or a division is wrong. Use the reference's.
    """

    code = "score.stagger"

    def test(self, case: Case) -> Iterator[Explanation]:
        yield from self._by_formula(case)
        yield from self._by_step(case)

    def _by_formula(self, case: Case) -> Iterator[Explanation]:
        for earlier in islice(case.nearby.earlier(), _MOST_EARLIER):
            reference = staggered(case.reference, earlier.reference)
            candidate = staggered(case.candidate, earlier.candidate) if reference else None
            if reference is None or candidate is None:
                continue
            classes = case.reference.shape[-1]
            keeps_sum = abs(reference.factor + classes * reference.share - 1.0) <= _NEAR
            if not keeps_sum or reference.factor - 1.0 <= _NEAR:
                continue
            fit = case.fit(candidate.made)
            yield Explanation(
                cause=self.code,
                fit=fit,
                evidence=f"the candidate is {candidate.words} ({earlier.key}), the reference {reference.words}: "
                f"{case.falls_to(fit)}",
                fix="stagger as the reference does: take the share of the sum away first, then divide by what is kept",
                assumed=2,
                implies=("bias.missing", "offset.constant", "scale.constant"),
                doubt=_SEVERAL_STEPS,
                predicted=candidate.made,
            )
            return

    def _by_step(self, case: Case) -> Iterator[Explanation]:
        again = case.nearby.again()
        for other in (one for one in again if abs(one.later) <= _FARTHEST):
            fit = case.fit(other.reference)
            if not fit.reaches_floor or case.fit(case.expected).reaches_floor:
                continue
            agree, told = _others_agree(again, other.later)
            whole_loop = agree + 1 >= _LEAST_STEPS and agree == told
            if other.later < 0 and not whole_loop:
                continue  # that is what the candidate had before
            steps = f"{abs(other.later)} step{'s' if abs(other.later) > 1 else ''}"
            more = f", and so are the {agree} others that tell" if whole_loop else ""
            yield Explanation(
                cause=self.code,
                fit=fit,
                evidence=f"the candidate has here what the reference has at {other.key}, {steps} "
                f"{'later' if other.later > 0 else 'before'}{more}: {case.falls_to(fit)}",
                fix=f"take what belongs to the step: the loop is {steps} {'ahead' if other.later > 0 else 'behind'}",
                specific=Specific.MISTAKE if whole_loop else Specific.FORM,
                implies=("values.stale", "scale.constant", "offset.constant", "ids.mismatch", "position.offset"),
                doubt=_SEVERAL_STEPS if whole_loop else _ONE_STEP,
                predicted=other.reference,
            )


def _others_agree(again: list[OtherCall], later: int) -> tuple[int, int]:
    """Return how many other steps of the candidate equal the reference's at distance `later`, and how many have one."""
    reference = {one.later: one.reference for one in again}
    pairs = [(one.candidate, reference[one.later + later]) for one in again if one.later + later in reference]
    return sum(_same(candidate, wanted) for candidate, wanted in pairs), len(pairs)


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.abs(one - other).max(initial=0.0) <= _NEAR * max(float(np.abs(other).max(initial=0.0)), 1e-30))


HYPOTHESIS: Final = ScoreStagger()
