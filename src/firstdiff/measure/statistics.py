"""Statistics of one tensor, in one pass."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from firstdiff.measure.accumulator import Moments, add_side, bounds_of
from firstdiff.measure.numerics import dot, to_float64, to_numbers
from firstdiff.measure.passes import Progress, each_part
from firstdiff.measure.plan import BLOCK, length_for, windows_of
from firstdiff.schema import Statistics
from firstdiff.trace import Source


def measure_statistics(source: Source, *, threads: int = 1, progress: Progress | None = None) -> Statistics:
    """Mean, population std, min and max of the finite elements, and how many are NaN or infinite.

    source: any tensor; of a complex one the magnitude is described
    threads: how many windows are worked on at a time; the result is the same for any number
    progress: called with the number of elements done so far

    >>> measure_statistics(ArraySource(np.array([1.0, 3.0, np.nan])))
    Statistics(mean=2.0, std=1.0, min=1.0, max=3.0, nan=1, inf=0)
    """
    gathered = Moments()
    for moments in each_part(
        windows_of(source.size, length_for(source.dtype)),
        lambda start, stop: _window(source.window(start, stop)),
        threads=threads,
        progress=progress,
    ):
        gathered.merge(moments)
    return gathered.statistics()


def _window(values: np.ndarray) -> Moments:
    gathered = Moments()
    with np.errstate(all="ignore"):
        for first in range(0, values.size, BLOCK):
            _add_block(gathered, values[first : first + BLOCK])
    return gathered


def _add_block(gathered: Moments, raw: np.ndarray) -> None:
    numbers = to_numbers(raw)
    values = np.abs(numbers) if numbers.dtype.kind == "c" else numbers
    bounds = bounds_of(raw, values)
    if all(map(math.isfinite, bounds)):
        gathered.add(values, dot(values, values), bounds)
    else:
        add_side(gathered, raw, numbers, np.isfinite(numbers))


_LEAST_FILLER = 1e3
_FAR = 100.0  # times everything else: no score, but a filler
_LEAST_SHARE = 0.01  # of all elements; fewer are outliers, which belong to the values
_WINDOW = 1 << 20


def fillers(values: np.ndarray) -> np.ndarray:
    """Mark what a mask adds or puts in, such as -1e9, in each line of the last axis: far larger than all else there."""
    size = np.abs(values)
    largest = size.max(axis=-1, keepdims=True, initial=0.0)
    filled = (size > largest / 2) & (largest >= _LEAST_FILLER)
    rest = np.where(filled, 0.0, size).max(axis=-1, keepdims=True, initial=0.0)
    return np.asarray(filled & (rest > 0) & (rest < largest / _FAR))


def shown_deviation(source: Source, statistics: Statistics) -> float:
    """The standard deviation of the finite elements, those left out that are a mask's filler.

    statistics: of the source, from a pass that was made before; only where they suggest a filler is it read again
    """
    std, low, high = statistics.std, statistics.min, statistics.max
    if std is None or low is None or high is None:
        return 0.0
    if source.dtype.kind in "biuc":
        return std
    filler = low if -low >= high else high
    # a share of 1 % in one place already gives a tenth of it
    if abs(filler) < _LEAST_FILLER or std < abs(filler) / 20:
        return std
    count = 0
    total, squares, shift = 0.0, 0.0, None
    for values in _windows(source):
        filled = values / filler > 0.5
        shown = values[~filled & np.isfinite(values)]
        if shown.size and np.abs(shown).max() > abs(filler) / _FAR:
            return std
        if shift is None and shown.size:
            shift = float(shown.mean())
        centred = shown - (shift or 0.0)
        count, total, squares = count + shown.size, total + float(centred.sum()), squares + float(centred @ centred)
    hidden = source.size - statistics.nan - statistics.inf - count
    if not count or hidden < _LEAST_SHARE * source.size:
        return std
    return float(np.sqrt(max(squares / count - (total / count) ** 2, 0.0)))


def _windows(source: Source) -> Iterator[np.ndarray]:
    for start in range(0, source.size, _WINDOW):
        yield to_float64(source.window(start, min(start + _WINDOW, source.size)))
