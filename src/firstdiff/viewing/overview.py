"""A plane of any size on a few pixels, without losing a single outlier: each pixel shows its largest value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from firstdiff.errors import UsageError
from firstdiff.trace import Source
from firstdiff.viewing.cut import Cut
from firstdiff.viewing.numbers import difference, real

# elements read at a time
_BAND = 1 << 22
_LARGEST = float(np.finfo(np.float32).max)

Read = Callable[[Cut], np.ndarray]


def overview(sources: tuple[Source, ...], cut: Cut, rows: int, columns: int) -> np.ndarray:
    """At most `rows` x `columns` float32 cells: of one source, or of the difference of two.

    Under each pixel the value of largest magnitude counts, with its sign; NaN outweighs everything, then infinities.
    """
    if len(cut.shape) > 2:
        raise UsageError(f"an overview shows one or two dimensions, not {len(cut.shape)}")
    read = _reader(sources)
    if len(cut.shape) < 2:
        line = read(cut).reshape(-1)
        return _finite32(_pooled_columns(line[None], line[None], min(columns, line.size)))
    high, wide = cut.shape
    if not high or not wide:
        return np.zeros((high, wide), np.float32)
    edges = np.linspace(0, high, min(rows, high) + 1).astype(int)
    top = np.full((len(edges) - 1, wide), -np.inf)
    bottom = np.full((len(edges) - 1, wide), np.inf)
    step = max(1, _BAND // wide)
    for begin in range(0, high, step):
        _pool_rows(read(cut.narrowed(0, begin, min(high, begin + step))), begin, edges, top, bottom)
    return _finite32(_pooled_columns(top, bottom, min(columns, wide)))


def _reader(sources: tuple[Source, ...]) -> Read:
    if len(sources) == 1:
        return lambda cut: real(cut.read(sources[0]))
    reference, candidate = sources
    return lambda cut: difference(cut.read(reference), cut.read(candidate))


def _pool_rows(band: np.ndarray, begin: int, edges: np.ndarray, top: np.ndarray, bottom: np.ndarray) -> None:
    """Take the rows of a band into the largest and the smallest value of each column of each pixel row."""
    first = int(np.searchsorted(edges, begin, side="right")) - 1
    last = int(np.searchsorted(edges, begin + len(band), side="left"))
    for pixel in range(first, last):
        rows = band[max(edges[pixel] - begin, 0) : edges[pixel + 1] - begin]
        np.maximum(top[pixel], rows.max(axis=0), out=top[pixel])
        np.minimum(bottom[pixel], rows.min(axis=0), out=bottom[pixel])


def _pooled_columns(top: np.ndarray, bottom: np.ndarray, columns: int) -> np.ndarray:
    if not top.size:
        return np.zeros((top.shape[0], 0))
    edges = np.linspace(0, top.shape[1], columns + 1).astype(int)[:-1]
    high, low = np.maximum.reduceat(top, edges, axis=1), np.minimum.reduceat(bottom, edges, axis=1)
    return np.where(high >= -low, high, low)


def _finite32(cells: np.ndarray) -> np.ndarray:
    """What float32 cannot hold stays finite: an infinity means that there is one."""
    return np.where(np.isinf(cells), cells, np.clip(cells, -_LARGEST, _LARGEST)).astype(np.float32)
