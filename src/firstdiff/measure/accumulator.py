"""What is gathered of a pair: one for every stretch, merged in the order of the data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from firstdiff.measure.cells import Cells
from firstdiff.measure.direction import turned_apart
from firstdiff.measure.hull import Hull
from firstdiff.measure.moments import Moments
from firstdiff.measure.sketch import Sketch


@final
@dataclass(slots=True)
class NonFinite:
    """Positions where either side is NaN or infinite.

    both_nan: NaN on both sides
    equal_inf: the same infinity on both sides
    conflicting: everything else: NaN or an infinity against a number, +inf against -inf, NaN against an infinity
    first: flat index of the first conflicting position, -1 if there is none
    first_both_nan: flat index of the first position with NaN on both sides, -1 if there is none
    """

    both_nan: int = 0
    equal_inf: int = 0
    conflicting: int = 0
    first: int = -1
    first_both_nan: int = -1

    def merge(self, other: NonFinite) -> None:
        self.both_nan += other.both_nan
        self.equal_inf += other.equal_inf
        self.conflicting += other.conflicting
        self.first = _earlier(self.first, other.first)
        self.first_both_nan = _earlier(self.first_both_nan, other.first_both_nan)


def _earlier(left: int, right: int) -> int:
    return max(left, right) if min(left, right) < 0 else min(left, right)


@final
@dataclass(slots=True)
class Accumulator:
    """Sums and extremes over the elements that are finite on both sides; each side's moments over its own.

    rr, cc, dd, rc: inner products of reference, candidate and their difference
    rest: what is left of the squared difference without its part along the reference
    max_abs: -1 until an element was seen; argmax is its flat index
    sketch: of everything, or of a fixed sample; cells: of the sample
    """

    reference: Moments = field(default_factory=Moments)
    candidate: Moments = field(default_factory=Moments)
    elements: int = 0
    finite: int = 0
    sum_abs: float = 0.0
    rr: float = 0.0
    cc: float = 0.0
    dd: float = 0.0
    rc: float = 0.0
    rest: float = 0.0
    max_abs: float = -1.0
    argmax: int = -1
    nonfinite: NonFinite = field(default_factory=NonFinite)
    hull: Hull = field(default_factory=Hull)
    sketch: Sketch = field(default_factory=Sketch)
    cells: Cells = field(default_factory=Cells)

    def peak(self, value: float, index: int) -> None:
        """The maximum of another stretch; of two that are equal the first in the data counts."""
        if value > self.max_abs or (value == self.max_abs and index < self.argmax):
            self.max_abs, self.argmax = value, index

    def add_products(self, rr: float, cc: float, dd: float, rc: float, rest: float) -> None:
        """The inner products of another stretch."""
        self.rest += rest + turned_apart(self.rr, self.rc, rr, rc)
        self.rr += rr
        self.cc += cc
        self.dd += dd
        self.rc += rc

    def merge(self, *others: Accumulator) -> None:
        """Take in other stretches, in the order of the data."""
        for other in others:
            self.reference.merge(other.reference)
            self.candidate.merge(other.candidate)
            self.elements += other.elements
            self.finite += other.finite
            self.sum_abs += other.sum_abs
            self.add_products(other.rr, other.cc, other.dd, other.rc, other.rest)
            self.peak(other.max_abs, other.argmax)
            self.nonfinite.merge(other.nonfinite)
            self.sketch.merge(other.sketch)
            self.cells.merge(other.cells)
        self.hull.merge(*(other.hull for other in others))
