"""Hypothesis: values uncorrelated with the expected ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Fit, Hypothesis, Specific
from firstdiff.diagnose.values.sides import Sides

_LEAST = 32
_UNRELATED = 0.1
_DOUBT = 0.1
_BELOW_OTHERS = 0.45  # of the difference counts as left: whatever explains more comes first


class ValuesUncorrelated(Hypothesis):
    """Values have nothing to do with what they should be.

    Other weights, another input, another seed, memory of something else: not a scale, not an order, not noise.

    Tested by the correlation of both sides, as values and as ranks. Look at what goes in: is it the same tensor, the
    same checkpoint, the same draw?
    """

    code = "values.uncorrelated"

    def applies(self, case: Case) -> bool:
        return case.comparable and Sides.of(case).real

    @np.errstate(all="ignore")
    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case).part
        reference, candidate = sides.reference[sides.finite], sides.candidate[sides.finite]
        if reference.size < _LEAST or not reference.std() or not candidate.std():
            return
        values, ranks = _correlation(reference, candidate), _correlation(_ranks(reference), _ranks(candidate))
        limit = _UNRELATED + 3 / reference.size**0.5
        if max(abs(values), abs(ranks)) > limit:
            return
        spread = f"its deviation is {candidate.std():.3g} against {reference.std():.3g}"
        yield Explanation(
            cause=self.code,
            fit=Fit(float("inf"), _BELOW_OTHERS * case.unexplained.rms, float("inf")),
            evidence=f"{sides.place}the correlation is {values:.2g}, {spread}",
            fix="look at what goes in: is it the same input, the same checkpoint, the same draw?",
            specific=Specific.SYMPTOM,
            doubt=_DOUBT,
        )


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.mean((one - one.mean()) * (other - other.mean())) / (one.std() * other.std()))


def _ranks(values: np.ndarray) -> np.ndarray:
    few = values[: 1 << 14]
    ranks = np.empty(few.size)
    ranks[np.argsort(few, kind="stable")] = np.arange(few.size)
    return ranks


HYPOTHESIS: Final = ValuesUncorrelated()
