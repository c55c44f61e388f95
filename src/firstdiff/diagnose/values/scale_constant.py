"""Hypothesis: one factor for all values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific
from firstdiff.diagnose.values.constants import name_of, sizes_of
from firstdiff.diagnose.values.estimates import factor_between
from firstdiff.diagnose.values.sides import Sides, of_channels

_LEAST = 1e-6
_NEAR = 1e-4
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
        if found is None or abs(found[0]) < _LEAST or abs(abs(found[0]) - 1.0) < _LEAST:
            return
        factor, error = found
        if sides.real or abs(factor.imag) <= _LEAST * abs(factor):
            factor = factor.real
        name = _name(sides, factor, error) if isinstance(factor, float) else None
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


def _name(sides: Sides, factor: float, error: float) -> str | None:
    """A constant, or what brings the reference, or what it comes from, to a deviation of 1."""
    name = name_of(factor, error, sizes_of(shapes_near(sides.case)))
    spread = float(sides.reference[sides.finite].std())
    if name or not spread:
        return name
    for value, words in (
        (spread, "the deviation of the reference"),
        (1 / spread, "1 / the deviation of the reference"),
    ):
        if abs(factor / value - 1.0) <= _NEAR:
            return words
    return None


def shapes_near(case: Case) -> list[tuple[int, ...]]:
    """The shapes of the row and of what went into it."""
    both = [*case.inputs.values(), *case.sources]
    return [case.candidate.shape, *(side.reference.shape for side in both if side.reference is not None)]


HYPOTHESIS: Final = ScaleConstant()
