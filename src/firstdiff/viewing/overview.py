"""A plane of any size on a few pixels, without losing a single outlier: each pixel shows its largest value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from firstdiff.errors import UsageError
from firstdiff.measure.promote import fits_float32, to_float32
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
    high, wide = (1, *cut.shape)[-2:] if cut.shape else (1, 1)
    if not high or not wide:
        return np.zeros((high, wide), np.float32)
    pixels = _Pixels(high, wide, rows, columns)
    read = _reader(sources)
    if len(cut.shape) < 2:
        pixels.take(0, read(cut).reshape(1, -1))
        return _finite32(pixels.outweighing())
    step = max(1, _BAND // wide)
    for begin in range(0, high, step):
        pixels.take(begin, read(cut.narrowed(0, begin, min(high, begin + step))))
    return _finite32(pixels.outweighing())


class _Pixels:
    """The largest and the smallest value under each pixel."""

    def __init__(self, high: int, wide: int, rows: int, columns: int) -> None:
        self._rows = np.linspace(0, high, min(rows, high) + 1).astype(int)
        self._columns = np.linspace(0, wide, min(columns, wide) + 1).astype(int)[:-1]
        self._top = np.full((len(self._rows) - 1, len(self._columns)), -np.inf)
        self._bottom = np.full(self._top.shape, np.inf)

    def take(self, begin: int, band: np.ndarray) -> None:
        """The rows from `begin` on."""
        first = int(np.searchsorted(self._rows, begin, side="right")) - 1
        last = int(np.searchsorted(self._rows, begin + len(band), side="left"))
        for pixel in range(first, last):
            rows = band[max(self._rows[pixel] - begin, 0) : self._rows[pixel + 1] - begin]
            top = np.maximum.reduceat(rows.max(axis=0), self._columns)
            bottom = np.minimum.reduceat(rows.min(axis=0), self._columns)
            np.maximum(self._top[pixel], top, out=self._top[pixel])
            np.minimum(self._bottom[pixel], bottom, out=self._bottom[pixel])

    def outweighing(self) -> np.ndarray:
        """With its sign, the one of larger magnitude."""
        return np.where(self._top >= -self._bottom, self._top, self._bottom)


def _reader(sources: tuple[Source, ...]) -> Read:
    """In float32 where that loses nothing: a picture of many elements takes half the time."""
    if not all(fits_float32(source.dtype) for source in sources):
        return _exact_reader(sources)
    if len(sources) == 1:
        return lambda cut: to_float32(cut.read(sources[0]))
    reference, candidate = sources
    return lambda cut: _difference32(cut.read(reference), cut.read(candidate))


def _exact_reader(sources: tuple[Source, ...]) -> Read:
    if len(sources) == 1:
        return lambda cut: real(cut.read(sources[0]))
    reference, candidate = sources
    return lambda cut: difference(cut.read(reference), cut.read(candidate))


def _difference32(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """What overflows, or is not finite, is done again with care."""
    with np.errstate(over="ignore", invalid="ignore"):
        apart = np.subtract(to_float32(theirs), to_float32(ours))
        finite = np.isfinite(apart.max(initial=0.0)) and np.isfinite(apart.min(initial=0.0))
    return apart if finite else difference(ours, theirs)


def _finite32(cells: np.ndarray) -> np.ndarray:
    """What float32 cannot hold stays finite: an infinity means that there is one."""
    return np.where(np.isinf(cells), cells, np.clip(cells, -_LARGEST, _LARGEST)).astype(np.float32)
