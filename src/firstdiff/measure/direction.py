"""What is left of a candidate without its part along the reference: what a cosine near 1 is made of.

Sums of squares lose the digits of a small turn behind a change of length. So every block whose difference runs along
the reference is looked at without that part, and blocks are put together by terms that are never negative.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from firstdiff.measure.dot import dots
from firstdiff.measure.scratch import scratch

# where the rest is a smaller share of the squares it is left of, it is worked out element by element
CANCELLED, CANCELLED_NARROW = 1e-4, 0.25
FAR = 0.01  # of |r|^2: beyond this the difference says less about the candidate than the candidate itself
_FAINT = 0.01  # a share for which float32 will not do


class Rest(NamedTuple):
    """`along` is <r, c>, to the digits that `squares` takes: the least that |c - slope * r|^2 can be."""

    along: float
    squares: float


def rest_of(r: np.ndarray, c: np.ndarray, d: np.ndarray, rr: float, rd: float, dd: float) -> Rest:
    """The rest of a block, given |r|^2, <r, d> and |d|^2 of its difference d as sums in the type of the block."""
    if dd < rr * FAR:
        along, squares = _left(r, c, d, rr, rd, dd)
        return Rest(rr + along, squares)
    return Rest(*_left(r, c, c, rr, *dots((r, c), (c, c))))


def _left(r: np.ndarray, c: np.ndarray, y: np.ndarray, rr: float, ry: float, yy: float) -> tuple[float, float]:
    """<r, y>, and the least of |y - slope * r|^2, for y = c or c - r."""
    if rr == 0.0 or yy == 0.0:
        return ry, yy
    squares = yy - ry * (ry / rr)
    if not squares <= yy * (CANCELLED if r.dtype == np.float64 else CANCELLED_NARROW):
        return ry, squares
    if squares < yy * _FAINT and r.dtype != np.float64:
        wide = c.astype(np.float64)
        r, y = r.astype(np.float64), wide if y is c else wide - r
    kind = r.dtype.type
    slope = float(kind(ry / rr))
    e = np.multiply(r, kind(-slope), out=scratch("rest", kind, r.size))
    e += y
    along, ee = dots((r, e), (e, e))
    return slope * rr + along, max(ee - along * (along / rr), 0.0)


def turned_apart(rr: float, rc: float, other_rr: float, other_rc: float) -> float:
    """What the rest of two stretches is more than the two of them, for each has a slope of its own."""
    if not rr or not other_rr:
        return 0.0
    step = rc / rr - other_rc / other_rr
    return step * step * rr * (other_rr / (rr + other_rr))
