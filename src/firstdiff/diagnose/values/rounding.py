"""Hypothesis: differences from rounding alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific
from firstdiff.diagnose.values.sides import Sides

# steps of the type: what the last rounding leaves, and what sums in another order were seen to leave
_LAST_BITS, _USUAL = 2.0, 62.0
_UNRELATED = 0.15
_SURE, _LIKELY, _OPEN = 0.05, 0.1, 0.5


class Rounding(Hypothesis):
    """The two sides differ by rounding alone.

    Sums in another order, another library's exp or tanh, a fused kernel: each rounds its last bits otherwise. What was
    asked for is stricter than that, as with a tolerance of 0.

    Tested by the size of the difference in steps of the type, and by whether it has a direction: rounding has none, a
    small mistake mostly has. Allow what rounding leaves (the default tolerance does), or compute both sides alike.
    """

    code = "rounding"

    def applies(self, case: Case) -> bool:
        systematic = case.row.systematic
        if systematic is not None and systematic.failed:
            return False  # the verdict allows for rounding already, and found more
        return case.comparable and case.unexplained.reaches_floor and case.unexplained.max_abs > 0

    def test(self, case: Case) -> Iterator[Explanation]:
        fit = case.unexplained
        steps = fit.worst * case.floor.steps
        size = f"the greatest difference, {fit.max_abs:.2g}, is {steps:.2g} steps of {case.dtype.name}"
        if steps <= _LAST_BITS:
            told, doubt = "the last bits of the numbers", _SURE
        elif _has_direction(Sides.of(case)):
            told, doubt = "so little that a small mistake, which its direction speaks for, looks the same", _OPEN
        elif steps <= _USUAL:
            told, doubt = f"without a direction; sums in another order leave up to {_USUAL:.0f}", _LIKELY
        else:
            told, doubt = "without a direction, yet more than sums in another order were seen to leave", _OPEN
        yield Explanation(
            cause=self.code,
            fit=fit,
            evidence=f"{size}: {told}",
            fix="allow what rounding leaves, as the default tolerance does, or compute both sides alike",
            specific=Specific.SYMPTOM,
            doubt=doubt,
        )


@np.errstate(all="ignore")
def _has_direction(sides: Sides) -> bool:
    """True if the difference has a mean, or correlates with the values."""
    apart, values = sides.difference[sides.finite], sides.reference[sides.finite]
    size = float(np.sqrt(np.mean(np.abs(apart) ** 2)))
    limit = (_UNRELATED + 3.0 / apart.size**0.5) * size
    spread = float(np.std(values))
    goes_with = np.abs(np.mean(apart * np.conj(values - values.mean()))) / spread if spread else 0.0
    return bool(np.abs(apart.mean()) > limit or goes_with > limit)


HYPOTHESIS: Final = Rounding()
