"""Hypothesis: dropout is active."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis

_LEAST = 32
_MOST_DROPPED = 0.95


class DropoutActive(Hypothesis):
    """Dropout is at work.

    In training, dropout sets a share p of the values to 0 and multiplies the others with 1 / (1 - p). A model left in
    training mode gives another result in every run.

    Tested by the pattern: every value is 0 or the reference's times one factor above 1, and the share of zeros is
    what the factor says. Put the candidate in evaluation mode (`model.eval()`).
    """

    code = "dropout.active"

    def test(self, case: Case) -> Iterator[Explanation]:
        expected, candidate = case.expected, case.candidate
        there = np.isfinite(expected) & np.isfinite(candidate) & (expected != 0)
        dropped = there & (candidate == 0)
        kept = there & ~dropped
        share = float(dropped.sum()) / max(int(there.sum()), 1)
        if there.sum() < _LEAST or not 0 < share < _MOST_DROPPED:
            return
        factor = float(np.median(candidate[kept] / expected[kept]))
        if factor < 1.001 or abs((1.0 - 1.0 / factor) - share) > 4.0 / np.sqrt(float(there.sum())):
            return
        predicted = np.where(dropped, 0.0, expected * factor)
        fit = case.fit(predicted)
        yield Explanation(
            cause=self.code,
            fit=fit,
            evidence=f"with {share:.0%} of the values dropped and the others times {factor:.4g} {case.falls_to(fit)}",
            fix="put the candidate in evaluation mode (model.eval())",
            assumed=1,
            predicted=predicted,
        )


HYPOTHESIS: Final = DropoutActive()
