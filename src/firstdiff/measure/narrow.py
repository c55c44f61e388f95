"""A first look at large pairs of types that float32 holds: twice as fast as float64.

Sums keep seven digits, which is what they are given with. Whatever may be a maximum or a corner of the hull is worked
out again in float64. A block that float32 cannot do justice to (NaN, overflow, underflow) is left to float64.
"""

from __future__ import annotations

import math
from typing import final

import numpy as np

from firstdiff.measure.accumulator import Accumulator
from firstdiff.measure.direction import FAR, rest_of
from firstdiff.measure.dot import dot, dots, total
from firstdiff.measure.promote import to_float32
from firstdiff.measure.scratch import scratch
from firstdiff.trace import Index

_UNDERFLOW = 1e-32  # a sum of float32 squares below this may have lost some of them
_ROUNDED_UP = 1.0 + 2.0**-22


@final
class NarrowLook:
    """Takes blocks into an accumulator."""

    def __init__(self, gathered: Accumulator) -> None:
        self._gathered = gathered
        self._r = self._c = np.empty(0, np.float32)

    def add(self, reference: np.ndarray, candidate: np.ndarray, start: int) -> bool:
        """Take in a block; False, and nothing taken in, if that needs float64."""
        rooms = (scratch(name, np.float32, reference.size) for name in ("reference", "candidate"))
        self._r, self._c = r, c = to_float32(reference, next(rooms)), to_float32(candidate, next(rooms))
        gathered = self._gathered
        bounds_r = float(r.min()), float(r.max())
        d = np.subtract(c, r, out=scratch("difference", np.float32, r.size))
        sum_r, rr, rd, dd, sum_c = dots((r, None), (r, r), (r, d), (d, d), (c, None))
        rest = rest_of(r, c, d, rr, rd, dd)
        difference = np.abs(d, out=d)
        top = float(difference.max())
        cc = rr + 2.0 * rd + dd if dd < rr * FAR else dot(c, c)
        if not _is_safe(rr, cc, rd, dd, top, bounds_r):
            return False
        gathered.reference.add_summed(r, sum_r, rr, bounds_r)
        gathered.candidate.add_summed(c, sum_c, cc, self._candidate_bounds(top, bounds_r))
        gathered.elements += r.size
        gathered.finite += r.size
        gathered.add_products(rr, cc, dd, *rest)
        if top:
            gathered.sum_abs += total(difference)
            gathered.hull.add(r, difference, top, self.exact)
        else:
            gathered.hull.zeros += int(np.count_nonzero(r == 0.0))
        self._add_peak(difference, top, start)
        return True

    def exact(self, at: Index) -> tuple[np.ndarray, np.ndarray]:
        """|r| and |c - r| in float64 at some places of the last block."""
        r, c = self._r[at].astype(np.float64), self._c[at].astype(np.float64)
        return np.abs(r), np.abs(c - r)

    def _candidate_bounds(self, top: float, bounds: tuple[float, float]) -> tuple[float, float]:
        """The candidate's bounds, looked for only where those of the reference leave room for new ones."""
        known = self._gathered.candidate
        reach = top * _ROUNDED_UP
        if known.low <= bounds[0] - reach and bounds[1] + reach <= known.high:
            return known.low, known.high
        return float(self._c.min()), float(self._c.max())

    def _add_peak(self, difference: np.ndarray, top: float, start: int) -> None:
        if top < np.float32(self._gathered.max_abs):
            return
        ties = np.flatnonzero(difference == top) if top else np.zeros(1, np.intp)
        _, exact = self.exact(ties)
        best = int(exact.argmax())
        self._gathered.peak(float(exact[best]), start + int(ties[best]))


def _is_safe(rr: float, cc: float, rd: float, dd: float, top: float, bounds: tuple[float, float]) -> bool:
    """Whether float32 has met no NaN, not overflowed, and lost no small squares."""
    if not all(map(math.isfinite, (rr, cc, rd, dd, top))):
        return False
    if any(bounds) and rr < _UNDERFLOW:
        return False
    return top == 0.0 or min(cc, dd) >= _UNDERFLOW
