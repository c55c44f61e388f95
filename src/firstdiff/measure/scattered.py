"""Tensors that lie in boxes, written down so that machine code can bring their values together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import NamedTuple

import numpy as np

from firstdiff.measure import kernel_places as kernel
from firstdiff.trace import Boxes, Source

# bytes in a row for the way to another page of memory: whole lines, as many as pay; with less, it is better left
_RUNS = (*range(512, 0, -kernel.LINE), 32)
_NEAR = 1 << 12  # lines of memory that stay in the cache whatever the order they are read in
_MOST_BOXES = 1 << 10


@dataclass(frozen=True, slots=True)
class Layout:
    """A source in boxes, as the kernel reads them, and how many elements it should gather at once."""

    source: Source
    boxes: Boxes
    table: np.ndarray
    piece: int

    def side(self, start: int, stop: int) -> np.ndarray | Scattered:
        """A window: as it lies, if in a row."""
        in_place = self.boxes.in_place(start, stop)
        return in_place if in_place is not None else Scattered(self, start, stop)


@dataclass(frozen=True, slots=True)
class Scattered:
    """A window that has not been brought together."""

    layout: Layout
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    def __getitem__(self, part: slice) -> np.ndarray:
        """Some of its elements, brought together."""
        first, stop, _ = part.indices(self.size)
        return self.layout.source.window(self.start + first, self.start + stop)


Side = np.ndarray | Scattered


def layout_of(source: Source, window: int) -> Layout | None:
    """How to gather windows of a length from a source; None where machine code cannot, or had better not."""
    boxes = source.boxes()
    if boxes is None or not source.size or not 0 < len(boxes.boxes) <= _MOST_BOXES:
        return None
    if not all(_is_plain(at, array, boxes.axes, source.dtype) for at, array in boxes.boxes):
        return None
    written = [_Written.of(boxes.axes, at, array) for at, array in boxes.boxes]
    pieces = (max(box.elements_for(run) for box in written) for run in _RUNS)
    piece = next((elements for elements in pieces if elements <= window), None)
    if piece is None or any(box.is_crumbled for box in written):
        return None
    width = max(len(box.axes) for box in written)
    table = np.array([box.row(width, source.size) for box in written], np.int64)
    return Layout(source, boxes, table, max(piece, 1) * -(-kernel.BLOCK // max(piece, 1)))


def _is_plain(at: tuple[int, ...], array: np.ndarray, axes: tuple[int, ...], dtype: np.dtype) -> bool:
    """Whether a box lies within the index space, and its values need only be copied."""
    bounds = zip(at, array.shape, axes, strict=True)
    inside = all(0 <= first < first + count <= axis for first, count, axis in bounds)
    return inside and array.dtype == dtype and array.dtype.isnative


class _Axis(NamedTuple):
    """How long it is, and what a step along it is in bytes and in the C order."""

    length: int
    step: int
    span: int


@dataclass(frozen=True, slots=True)
class _Written:
    """A box: where its first element is, in memory and in the C order, and its axes, the panel's two last.

    Along the last of them elements are neighbours in the C order.

    leading: how many axes stand before the panel's in the C order, too
    """

    address: int
    origin: int
    width: int
    leading: int
    axes: list[_Axis]

    @staticmethod
    def of(axes: tuple[int, ...], at: tuple[int, ...], array: np.ndarray) -> _Written:
        spans = [prod(axes[axis + 1 :]) for axis in range(len(axes))]
        origin = sum(first * span for first, span in zip(at, spans, strict=True))
        found = _merged([_Axis(*axis) for axis in zip(array.shape, array.strides, spans, strict=True)])
        if not found or found[-1].span > 1:
            found.append(_Axis(1, 0, 1))
        if len(found) == 1:
            found.insert(0, _Axis(1, 0, prod(axes)))
        row = _row_axis(found)
        ordered = [*found[:row], *found[row + 1 : -1], found[row], found[-1]]
        return _Written(array.__array_interface__["data"][0], origin, array.itemsize, row, ordered)

    @property
    def is_turned(self) -> bool:
        """Whether values are neighbours in memory that are none in the C order."""
        rows, columns = self.axes[-2:]
        return 0 < abs(rows.step) < abs(columns.step)

    @property
    def is_crumbled(self) -> bool:
        """Whether it is turned in bits so small that gathering would bring in a line of memory several times."""
        rows, columns = self.axes[-2:]
        whole = rows.step == self.width and rows.length * self.width >= kernel.LINE
        return self.is_turned and not whole and columns.length > _NEAR

    def elements_for(self, run: int) -> int:
        """How many must be gathered at once, in C order, to use so many bytes in a row of memory."""
        rows = self.axes[-2]
        return rows.span * min(max(run // self.width, 1), rows.length) if self.is_turned else 0

    def row(self, width: int, size: int) -> list[int]:
        """As the kernel reads it, with as many axes as others have."""
        more = width - len(self.axes)
        end = self.origin + sum((axis.length - 1) * axis.span for axis in self.axes) + 1
        head = [self.address, self.origin, end, self.leading + more]
        return [*head, *chain(*[_Axis(1, 0, size)] * more, *self.axes)]


def _merged(axes: list[_Axis]) -> list[_Axis]:
    """The same with fewer axes: those of 1 left out, and two as one that are so in memory and in the C order."""
    found: list[_Axis] = []
    for axis in axes:
        if found and found[-1][1:] == (axis.length * axis.step, axis.length * axis.span):
            found.append(axis._replace(length=axis.length * found.pop().length))
        elif axis.length > 1:
            found.append(axis)
    return found


def _row_axis(axes: list[_Axis]) -> int:
    """The axis that makes up a panel with the last one: the one closest in memory, so that lines are used whole."""
    last = len(axes) - 1
    nearest = min((abs(axis.step), -at) for at, axis in enumerate(axes) if axis.step or at == last)
    return -nearest[1] if axes[-1].step and -nearest[1] < last else last - 1
