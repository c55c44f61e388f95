"""Hypothesis: an earlier tensor is missing from a sum, or added twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific
from firstdiff.diagnose.values.earlier import before, places
from firstdiff.diagnose.values.sides import Sides

_LIKE = 0.99
_SAME = 0.999
_WHOLE = 0.01
_LEAST = 8


class ResidualMissing(Hypothesis):
    """An earlier tensor is not added, is added twice, or with another weight.

    The skip connection of a block: without it the difference is what went round the block.

    Tested by the part of the difference that each earlier tensor of the same shape accounts for. Add it once.
    """

    code = "residual.missing"

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        if sides.reference.size < _LEAST or not sides.finite.all():
            return
        flat = places(sides.reference.size)
        apart = sides.difference.reshape(-1)[flat]
        length = float(np.linalg.norm(apart))
        for one in before(case) if length else ():
            values = one.candidate.reshape(-1)[flat]
            size = float(np.linalg.norm(values))
            if not size or abs(np.vdot(values, apart)) < _LIKE * size * length or _parallel(one.reference, sides):
                continue
            weight = float((np.vdot(one.candidate, sides.difference) / np.vdot(one.candidate, one.candidate)).real)
            yield from self._told(sides, one.key, one.candidate, weight)

    def _told(self, sides: Sides, key: str, values: np.ndarray, weight: float) -> Iterator[Explanation]:
        if abs(weight + 1) < _WHOLE:
            yield from sides.told(
                self.code,
                sides.reference - values,
                f"{key} is not added",
                f"add {key}",
                implies=("op.skipped", "values.stale"),
            )
        elif abs(weight - 1) < _WHOLE:
            yield from sides.told(
                self.code, sides.reference + values, f"{key} is added once too often", f"add {key} once", doubt=0.1
            )
        else:
            yield from sides.told(
                self.code,
                sides.reference + weight * values,
                f"{weight:.5g} times {key} is added",
                f"look at the weight that {key} is added with",
                assumed=1,
                specific=Specific.FORM,
            )


def _parallel(values: np.ndarray, sides: Sides) -> bool:
    """True if an earlier tensor is nearly a multiple of the row, so that adding it only scales the row."""
    both = float(np.linalg.norm(values) * np.linalg.norm(sides.reference))
    return bool(abs(np.vdot(values, sides.reference)) > _SAME * both)


HYPOTHESIS: Final = ResidualMissing()
