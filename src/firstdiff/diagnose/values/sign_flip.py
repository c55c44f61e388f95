"""Hypothesis: values have the opposite sign."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.diagnose.values.channels import axes_worth_trying, factors_along, indices_in_words
from firstdiff.diagnose.values.sides import Sides, axis_words

_NEAR = 0.1


class SignFlip(Hypothesis):
    """Values have the other sign: all of them, one half, or some channels.

    A difference is taken the other way round, a rotation turns the wrong way, `-x2, x1` became `x2, x1`; of complex
    numbers, the imaginary part alone where one side has the conjugate.

    Tested by turning the sign of the part that is wrong, of the indices of each axis that are, and of the imaginary
    part. Turn the sign there.
    """

    code = "sign.flip"

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        part = sides.part
        yield from part.told(
            self.code, -part.reference, "the sign is the other one", "turn the sign", implies=("scale.constant",)
        )
        if not sides.real:
            conjugate = np.conj(part.reference)
            yield from part.told(
                self.code, conjugate, "the imaginary part has the other sign", "take the complex conjugate"
            )
        yield from self._of_some_indices(sides)

    def _of_some_indices(self, sides: Sides) -> Iterator[Explanation]:
        for axis in axes_worth_trying(sides.shape):
            factors, _ = factors_along(sides.reference, sides.candidate, (axis,), sides.allowed)
            turned = np.abs(factors + 1.0) < _NEAR
            if not turned.any() or turned.all():
                continue
            where = f"{indices_in_words(turned)} of {axis_words(axis, sides.ndim)}"
            yield from sides.told(
                self.code,
                np.where(turned, -1.0, 1.0) * sides.reference,
                f"the sign of {where} is flipped",
                f"turn the sign of {where}",
                assumed=1,
                implies=("scale.channel",),
            )


HYPOTHESIS: Final = SignFlip()
