"""Distributions of values: histograms of each side, and a scatter of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from firstdiff.trace import Source
from firstdiff.viewing.cut import Cut
from firstdiff.viewing.numbers import difference, real

# up to here every element counts; beyond, evenly spread runs of them do
_WHOLE = 1 << 22
_RUN = 1 << 12


@dataclass(frozen=True, slots=True)
class Histogram:
    """Bins of equal width over the finite values; `sampled` says that not all elements were looked at."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    nan: int
    inf: int
    sampled: bool


def histograms(sides: Sequence[tuple[Source, ...]], cut: Cut, bins: int) -> list[Histogram]:
    """One for each side, all over the same bins; a side is one source, or two whose difference counts."""
    seen = [_numbers(sources, cut) for sources in sides]
    spread = [values[np.isfinite(values)] for values, _ in seen]
    ends = [float(end) for values in spread if values.size for end in (values.min(), values.max())]
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    return [
        _binned(values, finite, bins, low, high, sampled)
        for (values, sampled), finite in zip(seen, spread, strict=True)
    ]


def _numbers(sources: tuple[Source, ...], cut: Cut) -> tuple[np.ndarray, bool]:
    parts, sampled = _values(sources, cut)
    return real(parts[0]) if len(parts) == 1 else difference(parts[0], parts[1]), sampled


def _binned(values: np.ndarray, finite: np.ndarray, bins: int, low: float, high: float, sampled: bool) -> Histogram:
    nan = int(np.isnan(values).sum())
    inf = values.size - finite.size - nan
    if not finite.size:
        return Histogram((), (), nan, inf, sampled)
    if not np.isfinite(high - low):  # the range itself is beyond float64
        finite, low, high = finite / 2, low / 2, high / 2
    counts, edges = np.histogram(finite, bins=bins if high > low else 1, range=(low, high) if high > low else None)
    return Histogram(tuple(edges.tolist()), tuple(counts.tolist()), nan, inf, sampled)


def scatter(sources: tuple[Source, ...], cut: Cut, count: int) -> tuple[np.ndarray, bool]:
    """Up to `count` elements as float32, evenly spread, a column for each source; and whether some were left out."""
    sides, sampled = _values(sources, cut)
    step = max(1, -(-sides[0].size // count))
    points = np.stack([real(values)[::step] for values in sides], axis=1)
    with np.errstate(over="ignore"):
        return points.astype(np.float32), sampled or step > 1


def _values(sources: tuple[Source, ...], cut: Cut) -> tuple[list[np.ndarray], bool]:
    if cut.size <= _WHOLE:
        return [cut.read(source).reshape(-1) for source in sources], False
    if cut == Cut.whole(sources[0].shape):
        starts = np.linspace(0, sources[0].size - _RUN, _WHOLE // _RUN // 4).astype(int)
        return [np.concatenate([source.window(at, at + _RUN) for at in starts]) for source in sources], True
    place = int(np.argmax(cut.shape))
    kept = max(1, _WHOLE * cut.shape[place] // cut.size)
    begin = (cut.shape[place] - kept) // 2
    inner = cut.narrowed(place, begin, begin + kept)
    return [inner.read(source).reshape(-1) for source in sources], True
