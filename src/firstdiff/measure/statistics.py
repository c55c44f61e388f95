"""One tensor's statistics, in one pass, in little memory."""

from __future__ import annotations

import math

import numpy as np

from firstdiff.measure.dot import dot
from firstdiff.measure.moments import Moments, bounds_of
from firstdiff.measure.nonfinite import add_side
from firstdiff.measure.plan import BLOCK, window_length, windows_of
from firstdiff.measure.promote import to_numbers
from firstdiff.measure.threads import Progress, each_part
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
        windows_of(source.size, window_length(source.dtype)),
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
