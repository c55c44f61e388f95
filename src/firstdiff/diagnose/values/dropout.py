"""Dropout is at work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.diagnose.values.sides import Sides

_LEAST = 32
_FEWEST, _MOST = 0.005, 0.95
_SURE = 4.0
_TINY = 1e-9


class DropoutActive(Hypothesis):
    """Dropout is at work: some values are 0, all others are larger by one factor.

    The model was left in training mode. A share p of the values, here and there, is 0, and the others are divided by
    1 - p.

    Tested by that very relation between the share of zeros and the factor of the others. Call `model.eval()`.
    """

    code = "dropout.active"

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        told = sides.finite & (sides.reference != 0)
        count = int(told.sum())
        if count < _LEAST:
            return
        dropped = told & (sides.candidate == 0)
        share = int(dropped.sum()) / count
        if not _FEWEST < share < _MOST:
            return
        kept = told & ~dropped
        factor = max(float(np.median((sides.candidate[kept] / sides.reference[kept]).real)), _TINY)
        slack = _SURE * (share * (1 - share) / count) ** 0.5
        if 1 - 1 / factor < 0.5 * share or abs(1 - 1 / factor - share) > slack + 1e-3:
            return
        yield from sides.told(
            self.code,
            np.where(dropped, 0.0, sides.reference * factor),
            f"{share:.1%} of the values are 0 and all others {factor:.4g} times what they should be, as dropout with "
            f"p = {1 - 1 / factor:.3g} makes them",
            "call model.eval(), or leave the dropout out",
            assumed=1,
            implies=("values.zero", "scale.constant"),
        )


HYPOTHESIS: Final = DropoutActive()
