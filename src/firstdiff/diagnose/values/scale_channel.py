"""Hypothesis: a factor for each channel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific
from firstdiff.diagnose.values.channels import (
    axes_worth_trying,
    factors_along,
    indices_in_words,
    numbers_in_words,
    says_more,
)
from firstdiff.diagnose.values.sides import Sides, axis_words

_ALL_ONE = 1e-4
_NOTHING = 1e-6


class ScaleChannel(Hypothesis):
    """The indices of one axis have factors of their own.

    A row of a weight is scaled, the gain of a norm is missing or another one, a scale for each head or each channel is
    forgotten. Which channels they are is told where they are few.

    Tested by the factor of each index of each axis; those that noise accounts for count as 1. Compare the
    weights, gains and scales that belong to these channels.
    """

    code = "scale.channel"

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        for axis in axes_worth_trying(sides.shape):
            factors, differ = factors_along(sides.reference, sides.candidate, (axis,), sides.allowed)
            changed = factors[differ]
            if (
                not differ.any()
                or np.abs(changed).max() < _NOTHING
                or (differ.all() and np.ptp(np.abs(changed)) <= _ALL_ONE * np.abs(changed).max())
            ):
                continue
            made = factors * sides.reference
            if not says_more(sides, made, int(differ.sum())):
                continue
            which = indices_in_words(differ)
            yield from sides.told(
                self.code,
                made,
                f"{which} of {axis_words(axis, sides.ndim)} scaled by {numbers_in_words(changed)}",
                "compare the weights, gains and scales that belong to these channels",
                assumed=int(differ.sum()),
                specific=Specific.FORM,
            )


HYPOTHESIS: Final = ScaleChannel()
