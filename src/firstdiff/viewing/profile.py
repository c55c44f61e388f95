"""The error along one dimension: one number for each head, channel or token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from firstdiff.errors import UsageError
from firstdiff.trace import Source
from firstdiff.viewing.numbers import difference

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
