"""NaN and infinities: counted, named, and kept out of every other figure."""

from __future__ import annotations

import numpy as np

from firstdiff.measure.accumulator import NonFinite
from firstdiff.measure.dot import dot
from firstdiff.measure.moments import Moments, bounds_of


def add_side(moments: Moments, raw: np.ndarray, numbers: np.ndarray, finite: np.ndarray) -> None:
    """Take in the finite elements of one side, and count the others."""
    nan = int(np.count_nonzero(np.isnan(numbers)))
    moments.nan += nan
    moments.inf += finite.size - int(np.count_nonzero(finite)) - nan
    if finite.any():
        kept = numbers[finite]
        values = np.abs(kept) if kept.dtype.kind == "c" else kept
        moments.add(values, dot(values, values), bounds_of(raw[finite], values))


def add_places(found: NonFinite, r: np.ndarray, c: np.ndarray, places: np.ndarray) -> None:
    """Take in elements that are not finite on both sides; `places` are their flat indices."""
    nan_r, nan_c = np.isnan(r), np.isnan(c)
    both_nan = nan_r & nan_c
    equal = ~nan_r & ~nan_c & (r == c)
    conflicting = ~both_nan & ~equal
    found.both_nan += int(np.count_nonzero(both_nan))
    found.equal_inf += int(np.count_nonzero(equal))
    found.conflicting += int(np.count_nonzero(conflicting))
    found.first = _first(found.first, conflicting, places)
    found.first_both_nan = _first(found.first_both_nan, both_nan, places)


def _first(known: int, wanted: np.ndarray, places: np.ndarray) -> int:
    return int(places[wanted.argmax()]) if known < 0 and wanted.any() else known
