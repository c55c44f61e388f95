"""How far two tensors point apart, where nearly all of their difference is one of length."""

from __future__ import annotations

import math

import numpy as np

from firstdiff.measure.plan import window_length
from firstdiff.measure.promote import to_complex128, to_float64
from firstdiff.measure.threads import each_window
from firstdiff.trace import Source

_BLOCK = 1 << 16
_NEAR = 0.9


def turn(reference: Source, candidate: Source, threads: int) -> float:
    """1 - cosine from what is left of the candidate without its part along the reference.

    Sums of squares lose the digits of a small turn behind a large change of length; here it is all that is summed.
    """
    rr, cc, rc, _ = _over_all(reference, candidate, 0.0, threads)
    cosine = rc / (math.sqrt(rr) * math.sqrt(cc))
    if cosine < _NEAR:
        return min(1.0 - cosine, 2.0)
    _, _, along, ee = _over_all(reference, candidate, rc / rr, threads)
    share = max(ee - along * (along / rr), 0.0) / cc
    return share / (1.0 + cosine)


def _over_all(reference: Source, candidate: Source, slope: float, threads: int) -> list[float]:
    def work(start: int, stop: int) -> np.ndarray:
        return _sums(reference.window(start, stop), candidate.window(start, stop), slope)

    length = window_length(reference.dtype, candidate.dtype)
    found = np.zeros(4)
    for window in each_window(reference.size, length, work, threads=threads):
        found += window
    return found.tolist()


def _sums(reference: np.ndarray, candidate: np.ndarray, slope: float) -> np.ndarray:
    """|r|^2, |c|^2, <r, e> and |e|^2 for e = c - slope * r, block by block."""
    found = np.zeros(4)
    is_complex = "c" in (reference.dtype.kind, candidate.dtype.kind)
    for start in range(0, reference.size, _BLOCK):
        r, c = (_real(side[start : start + _BLOCK], is_complex) for side in (reference, candidate))
        e = c - slope * r
        found += (np.dot(r, r), np.dot(c, c), np.dot(r, e), np.dot(e, e))
    return found


def _real(values: np.ndarray, is_complex: bool) -> np.ndarray:
    return to_complex128(values).view(np.float64) if is_complex else to_float64(values)
