"""Downsample a plane to a few pixels, each the largest value below it, so that no outlier is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from firstdiff.errors import UsageError
from firstdiff.measure.numerics import fits_float32, to_float32
from firstdiff.trace import Source
from firstdiff.viewing.slice import Cut, difference, real

# elements that are read, or mapped, at a time, and those of them that are worked on before they leave the cache
_BAND = 1 << 22
_CHUNK = 1 << 17
_LARGEST = float(np.finfo(np.float32).max)

# the largest and the smallest of the numbers along the first axis of one chunk of each source
Ends = tuple[np.ndarray, np.ndarray]
Work = Callable[[list[np.ndarray]], Ends]


def overview(sources: tuple[Source, ...], cut: Cut, rows: int, columns: int) -> np.ndarray:
    """At most `rows` x `columns` float32 cells: of one source, or of the difference of two.

    Under each pixel the value of largest magnitude counts, with its sign; NaN outweighs everything, then infinities.
    """
    if len(cut.shape) > 2:
        raise UsageError(f"an overview shows one or two dimensions, not {len(cut.shape)}")
    high, wide = (1, *cut.shape)[-2:] if cut.shape else (1, 1)
    if not high or not wide:
        return np.zeros((high, wide), np.float32)
    down, across = _Edges.of(high, rows), _Edges.of(wide, columns)
    work = _work(sources)
    top = np.full((down.pixels, across.pixels), -np.inf)
    bottom = np.full(top.shape, np.inf)
    for left in across.pieces(_BAND):
        for band in down.pieces(max(1, _BAND // left.length)):
            values = [_read(source, cut, band, left) for source in sources]
            for rows_of_pixel in band.split(max(1, _CHUNK // left.length)):
                here = slice(rows_of_pixel.begin - band.begin, rows_of_pixel.end - band.begin)
                most, least = work([side[here] for side in values])
                cells = rows_of_pixel.first, left.pixels
                np.maximum(top[cells], np.maximum.reduceat(most, left.starts), out=top[cells])
                np.minimum(bottom[cells], np.minimum.reduceat(least, left.starts), out=bottom[cells])
    return _finite32(np.where(top >= -bottom, top, bottom))


@dataclass(frozen=True, slots=True)
class _Piece:
    """Indices `begin` to `end` of one dimension; `first` is the pixel of the first, `starts` where pixels begin."""

    begin: int
    end: int
    first: int
    starts: np.ndarray

    @property
    def length(self) -> int:
        return self.end - self.begin

    @property
    def pixels(self) -> slice:
        return slice(self.first, self.first + len(self.starts))

    def split(self, most: int) -> Iterator[_Piece]:
        """Each pixel on its own, in parts of at most so many indices."""
        ends = [*self.starts[1:].tolist(), self.length]
        for pixel, (start, end) in enumerate(zip(self.starts.tolist(), ends, strict=True)):
            for begin in range(start, end, most):
                stop = min(begin + most, end)
                yield _Piece(self.begin + begin, self.begin + stop, self.first + pixel, self.starts[:1])


@dataclass(frozen=True, slots=True)
class _Edges:
    """The bounds of the pixels along one dimension."""

    edges: np.ndarray

    @classmethod
    def of(cls, length: int, pixels: int) -> _Edges:
        return cls(np.linspace(0, length, min(pixels, length) + 1).astype(int))

    @property
    def pixels(self) -> int:
        return len(self.edges) - 1

    def pieces(self, most: int) -> Iterator[_Piece]:
        """All indices, at most so many at a time; a pixel may be in several of them."""
        length = int(self.edges[-1])
        for begin in range(0, length, most):
            end = min(begin + most, length)
            first = int(np.searchsorted(self.edges, begin, side="right")) - 1
            last = int(np.searchsorted(self.edges, end, side="left"))
            yield _Piece(begin, end, first, np.maximum(self.edges[first:last] - begin, 0))


def _read(source: Source, cut: Cut, rows: _Piece, columns: _Piece) -> np.ndarray:
    """Two dimensions of values; mapped and not copied where they follow one another in the data."""
    shape = rows.length, columns.length
    if len(cut.shape) == 2:
        cut = cut.narrowed(0, rows.begin, rows.end)
    if cut.shape:
        cut = cut.narrowed(len(cut.shape) - 1, columns.begin, columns.end)
    start = cut.run_in(source.shape)
    return (cut.read(source) if start is None else source.window(start, start + cut.size)).reshape(shape)


def _work(sources: tuple[Source, ...]) -> Work:
    """In float32 where that loses nothing: a picture of many elements takes half the time."""
    narrow = all(fits_float32(source.dtype) for source in sources)
    if len(sources) == 1:
        return lambda sides: _ends(to_float32(sides[0]) if narrow else real(sides[0]))
    return _ends_of_differences32 if narrow else lambda sides: _ends(difference(*sides))


def _ends(numbers: np.ndarray) -> Ends:
    return numbers.max(axis=0), numbers.min(axis=0)


@np.errstate(over="ignore", invalid="ignore")
def _ends_of_differences32(sides: list[np.ndarray]) -> Ends:
    """Return the extremes of differences in float32; in float64 if one overflows or is not finite."""
    reference, candidate = sides
    most, least = _ends(np.subtract(to_float32(candidate), to_float32(reference)))
    if np.isfinite(most).all() and np.isfinite(least).all():
        return most, least
    return _ends(difference(reference, candidate))


def _finite32(cells: np.ndarray) -> np.ndarray:
    """Convert to float32, clipping finite values to its range so that infinities stay distinct."""
    return np.where(np.isinf(cells), cells, np.clip(cells, -_LARGEST, _LARGEST)).astype(np.float32)
