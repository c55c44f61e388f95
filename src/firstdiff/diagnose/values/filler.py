"""Hypothesis: another fill value in masked places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.diagnose.values.sides import Sides

_FAR = 100.0  # times what else there is: no score, but a filler


class ValuesFiller(Hypothesis):
    """Masked places hold another number: -inf on one side, -1e9 or the lowest of a type on the other.

    After the softmax both are 0, unless a row is masked everywhere: then -inf makes NaN and a number makes an even
    row.

    Tested by the places that differ: each side has one number there, far below everything else. Fill with what the
    reference fills with, or compare behind the softmax.
    """

    code = "values.filler"

    def applies(self, case: Case) -> bool:
        return case.comparable and Sides.of(case).real

    @np.errstate(all="ignore")
    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        if not sides.reference.size or np.isnan(sides.reference).any() or np.isnan(sides.candidate).any():
            return
        reference, candidate = float(sides.reference.min()), float(sides.candidate.min())
        masked = sides.reference == reference
        if reference == candidate or masked.all() or not np.array_equal(masked, sides.candidate == candidate):
            return
        shown = sides.candidate[~masked]
        agrees = case.floor_of(shown).fit(sides.reference[~masked])
        if max(reference, candidate) > -_FAR * float(np.abs(shown).max()) or not agrees.reaches_floor:
            return
        predicted = np.where(masked, candidate, sides.reference)
        yield Explanation(
            cause=self.code,
            fit=agrees,
            evidence=f"{int(masked.sum()):,} masked places hold {candidate:.6g} in place of {reference:.6g}; "
            "everything else agrees",
            fix=f"fill masked places with {reference:.6g}, or compare what comes out of the softmax",
            assumed=1,
            implies=("values.nonfinite", "values.clipped", "offset.constant"),
            predicted=predicted,
        )


HYPOTHESIS: Final = ValuesFiller()
