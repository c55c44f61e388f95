"""Hypothesis: an offset for each channel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific
from firstdiff.diagnose.values.channels import (
    axes_worth_trying,
    indices_in_words,
    numbers_in_words,
    offsets_along,
    says_more,
)
from firstdiff.diagnose.values.sides import Sides, axis_words

_ALL_ONE = 1e-4
_LEAST_ROWS = 2


class OffsetChannel(Hypothesis):
    """The indices of one axis have numbers of their own added.

    A bias is missing, doubled or another one; a position or a mean for each channel is left in.

    Tested by the mean difference of each index of each axis; those that noise accounts for count as 0. Compare
    the biases and means that belong to these channels.
    """

    code = "offset.channel"

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        for axis in axes_worth_trying(sides.shape, least=_LEAST_ROWS):
            offsets, differ = offsets_along(sides.difference, (axis,), sides.allowed)
            added = offsets[differ]
            if not differ.any() or (differ.all() and np.ptp(np.abs(added)) <= _ALL_ONE * np.abs(added).max()):
                continue
            made = sides.reference + offsets
            if not says_more(sides, made, int(differ.sum())):
                continue
            yield from sides.told(
                self.code,
                made,
                f"{indices_in_words(differ)} of {axis_words(axis, sides.ndim)} offset by {numbers_in_words(added)}",
                "compare the biases and means that belong to these channels",
                assumed=int(differ.sum()),
                specific=Specific.FORM,
                implies=("offset.constant",),
            )


HYPOTHESIS: Final = OffsetChannel()
