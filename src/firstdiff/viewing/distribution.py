"""Distribution of values, and error profiles along dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from firstdiff.errors import UsageError
from firstdiff.trace import Source
from firstdiff.viewing.slice import Cut, difference, real

# up to here every element counts; beyond, evenly spread runs of them do
_WHOLE = 1 << 22
_RUN = 1 << 12


@dataclass(frozen=True, slots=True)
class BinnedValues:
    """Bins of equal width over the finite values; `sampled` says that not all elements were looked at."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    nan: int
    inf: int
    sampled: bool


def histograms(sides: Sequence[tuple[Source, ...]], cut: Cut, bins: int) -> list[BinnedValues]:
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


def _binned(values: np.ndarray, finite: np.ndarray, bins: int, low: float, high: float, sampled: bool) -> BinnedValues:
    nan = int(np.isnan(values).sum())
    inf = values.size - finite.size - nan
    if not finite.size:
        return BinnedValues((), (), nan, inf, sampled)
    if not np.isfinite(high - low):  # the range itself is beyond float64
        finite, low, high = finite / 2, low / 2, high / 2
    counts, edges = np.histogram(finite, bins=bins if high > low else 1, range=(low, high) if high > low else None)
    return BinnedValues(tuple(edges.tolist()), tuple(counts.tolist()), nan, inf, sampled)


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


_WINDOW = 1 << 20


@dataclass(frozen=True, slots=True)
class Profile:
    """The largest and the root-mean-square difference at each index; non-finite ones count in `max_abs` alone."""

    dim: int
    max_abs: tuple[float, ...]
    rms: tuple[float, ...]


def profile(reference: Source, candidate: Source, dim: int) -> Profile:
    """Of a pair of one shape, in one pass."""
    if not 0 <= dim < len(reference.shape):
        raise UsageError(f"there is no dimension {dim} of {list(reference.shape)}")
    length = reference.shape[dim]
    largest, squares, counts = np.zeros(length), np.zeros(length), np.zeros(length, np.int64)
    for piece in _pieces(reference.shape, dim):
        apart = difference(reference.window(*piece.window), candidate.window(*piece.window))
        lines = np.abs(apart).reshape(-1, piece.count, piece.inner)
        here = slice(piece.first, piece.first + piece.count)
        finite = np.isfinite(lines)
        largest[here] = np.maximum(largest[here], lines.max(axis=(0, 2)))
        squares[here] += np.square(np.where(finite, lines, 0.0)).sum(axis=(0, 2))
        counts[here] += finite.sum(axis=(0, 2))
    rms = np.sqrt(squares / np.maximum(counts, 1))
    return Profile(dim, tuple(largest.tolist()), tuple(rms.tolist()))


@dataclass(frozen=True, slots=True)
class _Piece:
    """A window of the data: whole repeats of `count` indices from `first` on, each with `inner` elements."""

    first: int
    count: int
    inner: int
    window: tuple[int, int]


def _pieces(shape: tuple[int, ...], dim: int) -> Iterator[_Piece]:
    outer, length, inner = prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :])
    row = length * inner
    if not outer * row:
        return
    if row <= _WINDOW:
        step = _WINDOW // row
        for begin in range(0, outer, step):
            yield _Piece(0, length, inner, (begin * row, min(begin + step, outer) * row))
        return
    taken = max(1, _WINDOW // inner)
    for begin in range(0, outer * row, row):
        for first in range(0, length, taken):
            count = min(taken, length - first)
            start, stop = begin + first * inner, begin + (first + count) * inner
            for at in range(start, stop, _WINDOW if count == 1 else stop - start):
                end = min(stop, at + _WINDOW) if count == 1 else stop
                yield _Piece(first, count, (end - at) // count, (at, end))
