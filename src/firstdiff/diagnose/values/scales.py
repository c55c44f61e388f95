"""Hypotheses: one factor or offset for all values, for each channel or each vector, or another sign."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific
from firstdiff.diagnose.values.estimates import (
    axes_worth_trying,
    constant_name,
    factor_between,
    factors_along,
    indices_in_words,
    numbers_in_words,
    offsets_along,
    says_more,
    sizes_of,
)
from firstdiff.diagnose.values.sides import Sides, axis_words, of_channels

_SLIGHT = 1e-6
_NEAR_SIZE = 1e-4
_NAMED_DOUBT, _DOUBT = 0.0, 0.05


class ScaleConstant(Hypothesis):
    """All values are the reference's times one factor.

    A scale was forgotten, done twice, or is another one: `1/sqrt(d)` before the softmax, `sqrt(d)` after an embedding,
    255 for images, 32768 for sound. Where only a part of the tensor is wrong, its factor is told.

    Tested by the factor that most elements agree on; constants that models use, and the roots of the sizes at
    hand, are named. Look for the place where the candidate multiplies or divides by that number.
    """

    code = "scale.constant"

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case).part
        if of_channels(sides):
            return
        found = factor_between(sides.reference.reshape(-1), sides.candidate.reshape(-1))
        if found is None or abs(found[0]) < _SLIGHT or abs(abs(found[0]) - 1.0) < _SLIGHT:
            return
        factor, error = found
        if sides.real or abs(factor.imag) <= _SLIGHT * abs(factor):
            factor = factor.real
        name = _factor_name(sides, factor, error) if isinstance(factor, float) else None
        shown = f"{factor:.6g}" if isinstance(factor, float) else f"{factor.real:.6g}{factor.imag:+.6g}j"
        known = f" ({name})" if name and name != shown else ""
        text = f"the candidate is {shown}{known} times what it should be"
        yield from sides.told(
            self.code,
            factor * sides.reference,
            text,
            f"divide by {name or shown}, or leave out what multiplies by it",
            assumed=1,
            specific=Specific.FORM,
            doubt=_NAMED_DOUBT if name else _DOUBT,
        )


def _factor_name(sides: Sides, factor: float, error: float) -> str | None:
    """Name a factor: a known constant, or one that brings the reference or an input to a deviation of 1."""
    name = constant_name(factor, error, sizes_of(shapes_near(sides.case)))
    spread = float(sides.reference[sides.finite].std())
    if name or not spread:
        return name
    for value, words in (
        (spread, "the deviation of the reference"),
        (1 / spread, "1 / the deviation of the reference"),
    ):
        if abs(factor / value - 1.0) <= _NEAR_SIZE:
            return words
    return None


def shapes_near(case: Case) -> list[tuple[int, ...]]:
    """Return the shapes of the row and of its inputs."""
    both = [*case.inputs.values(), *case.sources]
    return [case.candidate.shape, *(side.reference.shape for side in both if side.reference is not None)]


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


_LEAST_LENGTH = 4


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


class OffsetConstant(Hypothesis):
    """One number is added to all values.

    A mean is not taken away, a zero point is left in, an index starts at 1 in place of 0.

    Tested by the median difference. Look for what the candidate adds, or forgets to take away.
    """

    code = "offset.constant"

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case).part
        apart = sides.difference[sides.finite & sides.wrong]
        if not apart.size or not sides.real:
            return
        offset = float(np.median(apart))
        close = np.abs(apart - offset) <= 0.5 * abs(offset)
        if not close.any():
            return
        offset = float(apart[close].mean())
        yield from sides.told(
            self.code,
            sides.reference + offset,
            f"the candidate is what it should be plus {offset:.6g}",
            f"take {offset:.6g} away, or leave out what adds it",
            assumed=1,
            specific=Specific.FORM,
        )


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


_NEAR_MINUS_ONE = 0.1


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
            turned = np.abs(factors + 1.0) < _NEAR_MINUS_ONE
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


SCALE_CONSTANT: Final = ScaleConstant()
SCALE_CHANNEL: Final = ScaleChannel()
SCALE_ROW: Final = ScaleRow()
OFFSET_CONSTANT: Final = OffsetConstant()
OFFSET_CHANNEL: Final = OffsetChannel()
SIGN_FLIP: Final = SignFlip()
