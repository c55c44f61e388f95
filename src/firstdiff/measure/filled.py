"""The deviation of what a mask leaves: numbers such as -1e9 in hidden places do not tell the scale of the rest."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from firstdiff.measure.promote import to_float64
from firstdiff.schema import Statistics
from firstdiff.trace import Source

_LEAST_FILLER = 1e3
_FAR = 100.0  # times everything else: no score, but a filler
_LEAST_SHARE = 0.01  # of all elements; fewer are outliers, which belong to the values
_WINDOW = 1 << 20


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
