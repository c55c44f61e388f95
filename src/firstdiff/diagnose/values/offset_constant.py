"""Hypothesis: one offset for all values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific
from firstdiff.diagnose.values.sides import Sides


class OffsetConstant(Hypothesis):
    """One number is added to all values.

    A mean is not taken away, a zero point is left in, an index starts at 1 in place of 0.

    Tested by the median difference. Look for what the candidate adds, or forgets to take away.
    """

    code = "offset.constant"

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case).part
        apart = sides.difference[sides.finite & sides.wrong]
        if not apart.size or not sides.real:
            return
        offset = float(np.median(apart))
        close = np.abs(apart - offset) <= 0.5 * abs(offset)
        if not close.any():
            return
        offset = float(apart[close].mean())
        yield from sides.told(
            self.code,
            sides.reference + offset,
            f"the candidate is what it should be plus {offset:.6g}",
            f"take {offset:.6g} away, or leave out what adds it",
            assumed=1,
            specific=Specific.FORM,
        )


HYPOTHESIS: Final = OffsetConstant()
