"""Hypotheses: values are all 0, or all the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific
from firstdiff.diagnose.values.sides import Sides

_TINY = 1e-12


class ValuesZero(Hypothesis):
    """Values are 0 where they should not be: all of them, a chunk, a channel, or from a token on.

    A buffer that was never filled, an activation that lets nothing through, a mask that hides everything, an expert or
    a chunk that is skipped.

    Tested by the elements that are wrong: all of them are 0. See whether an activation, a mask or an unfilled buffer
    makes them so.
    """

    code = "values.zero"

    def applies(self, case: Case) -> bool:
        return case.comparable and dtypes.kind_of(case.candidate_dtype) != "bool"

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case).part
        wrong = sides.wrong & sides.finite
        if not wrong.any():
            return
        top = float(np.abs(sides.reference[np.isfinite(sides.reference)]).max(initial=0.0))
        zero = np.abs(sides.candidate) <= _TINY * top
        if not zero[wrong].all():
            return
        whole = bool(zero.all())
        yield from sides.told(
            self.code,
            np.where(zero, 0.0, sides.reference),
            "the candidate is 0" if whole else f"{int(wrong.sum()):,} elements are 0 in the candidate",
            "see whether an activation, a mask or a buffer that is never filled makes these values 0",
            specific=Specific.SYMPTOM,
            doubt=0.0 if whole else 0.2,
        )


class ValuesConstant(Hypothesis):
    """Values are all the same number.

    An activation is saturated, a softmax runs over an axis of one, a default was never overwritten.

    Tested by the part that is wrong: its values do not vary. See what makes them so.
    """

    code = "values.constant"

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case).part
        values = sides.candidate[sides.finite]
        if values.size < 2 or values.dtype.kind != "f":
            return
        value = float(values[0])
        if not value or float(np.ptp(values)) > _TINY * abs(value):
            return
        yield from sides.told(
            self.code,
            np.full_like(sides.reference, value),
            f"the candidate is {value:.6g} everywhere",
            "see what makes these values all the same: a saturated activation, a softmax over one element, a default",
            specific=Specific.SYMPTOM,
            assumed=1,
        )


ZERO: Final = ValuesZero()
CONSTANT: Final = ValuesConstant()
