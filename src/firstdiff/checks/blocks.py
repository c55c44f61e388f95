"""Read tensors in blocks, as flat windows or as rows along an axis, so that no tensor is held whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import final

import numpy as np

from firstdiff import dtypes
from firstdiff.errors import UsageError
from firstdiff.trace import Index, Source
from firstdiff.trace.slices import parse_slice

BLOCK = 1 << 18


@final
class SlicedSource(Source):
    """A part of another source, as a slice such as `0,:,3:8` gives it."""

    def __init__(self, source: Source, text: str) -> None:
        self._source = source
        self._index: Index = parse_slice(text, source.shape)
        # a broadcast array has a shape, and strides of 0: nothing is allocated
        self.shape = np.broadcast_to(np.empty((), np.int8), source.shape)[self._index].shape
        self.dtype = source.dtype

    def view(self) -> np.ndarray:
        return np.asarray(self._source.view()[self._index])


def windows(source: Source) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the elements in C order, block by block, each with the flat index it starts at."""
    for start in range(0, source.size, BLOCK):
        yield start, comparable(source.window(start, min(start + BLOCK, source.size)))


def comparable(values: np.ndarray) -> np.ndarray:
    """Return small float types as float32, which holds all of them; others as they are."""
    return values.astype(np.float32) if dtypes.is_extended(values.dtype) else values


def index_of(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(part) for part in np.unravel_index(flat, shape)) if shape else ()


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Pieces of rows: `values` is [rows outside, elements along the axis, rows inside].

    outer, inner: where the rows begin
    position: of the first element along the axis
    is_last: True for the piece that ends these rows
    """

    values: np.ndarray
    outer: int
    inner: int
    position: int
    is_last: bool


@dataclass(frozen=True, slots=True)
class RowShape:
    """The rows of a tensor along an axis: `outer` times `inner` rows of `length` elements."""

    shape: tuple[int, ...]
    axis: int
    outer: int
    length: int
    inner: int

    @classmethod
    def of(cls, shape: tuple[int, ...], axis: int) -> RowShape:
        if not -len(shape) <= axis < len(shape):
            raise UsageError(f"has the shape {list(shape)}, which has no axis {axis}")
        place = axis % len(shape)
        return cls(shape, place, prod(shape[:place]), shape[place], prod(shape[place + 1 :]))

    def index(self, outer: int, inner: int, position: int | None = None) -> tuple[int, ...]:
        """Return the index of a row, 0 along its axis, or of one of its elements."""
        before = index_of(outer, self.shape[: self.axis])
        return (*before, position or 0, *index_of(inner, self.shape[self.axis + 1 :]))


def row_blocks(source: Source, rows: RowShape) -> Iterator[RowBlock]:
    """Yield all rows: many short ones at once, a long one in pieces of it."""
    slab = rows.length * rows.inner
    if not source.size:
        return
    if slab <= BLOCK:
        together = max(1, BLOCK // slab)
        for outer in range(0, rows.outer, together):
            count = min(together, rows.outer - outer)
            flat = comparable(source.window(outer * slab, (outer + count) * slab))
            yield RowBlock(flat.reshape(count, rows.length, rows.inner), outer, 0, 0, True)
        return
    for outer in range(rows.outer):
        yield from _long_rows(source, rows, outer)


def _long_rows(source: Source, rows: RowShape, outer: int) -> Iterator[RowBlock]:
    start = outer * rows.length * rows.inner
    for inner in range(0, rows.inner, BLOCK):
        width = min(BLOCK, rows.inner - inner)
        # neighbours along the axis lie together only where all inner rows are read at once
        height = max(1, BLOCK // rows.inner) if width == rows.inner else 1
        for position in range(0, rows.length, height):
            stop = min(position + height, rows.length)
            first = start + position * rows.inner + inner
            flat = source.window(first, first + (stop - position - 1) * rows.inner + width)
            values = comparable(flat).reshape(1, stop - position, width)
            yield RowBlock(values, outer, inner, position, stop == rows.length)
