"""Hypothesis: a factor for each vector along the last axis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific
from firstdiff.diagnose.values.channels import factors_along, numbers_in_words, says_more
from firstdiff.diagnose.values.sides import Sides

_LEAST_LENGTH = 4
_ALL_ONE = 1e-4


class ScaleRow(Hypothesis):
    """Each vector along the last axis has a factor of its own.

    What a normalisation over the last axis leaves when its eps, its variance or its input's size is another, and
    what a sum of weights that is not divided by leaves: the direction of every vector is right, its length is not.

    Tested by the factor of each vector. Look at what divides by a length, a deviation or a sum.
    """

    code = "scale.row"

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        if sides.ndim < 2 or sides.shape[-1] < _LEAST_LENGTH or np.prod(sides.shape[:-1]) < 2:
            return
        leading = tuple(range(sides.ndim - 1))
        factors, differ = factors_along(sides.reference, sides.candidate, leading, sides.allowed)
        changed = factors[differ]
        if not differ.any() or np.ptp(np.abs(changed)) <= _ALL_ONE * np.abs(changed).max():
            return
        made = factors * sides.reference
        if not says_more(sides, made, int(differ.sum())):
            return
        yield from sides.told(
            self.code,
            made,
            f"{int(differ.sum())} of {differ.size} vectors along the last axis are scaled by "
            f"{numbers_in_words(changed)}",
            "look at what divides by a length, a deviation or a sum: eps, variance, normalisation of weights",
            assumed=int(differ.sum()),
            specific=Specific.FORM,
        )


HYPOTHESIS: Final = ScaleRow()
