"""Sources of tensor values, read in boxes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple, final

import numpy as np

Box = tuple[tuple[int, ...], np.ndarray]  # the first index, and a view with a dimension for every axis


class Boxes(NamedTuple):
    """Views that fill an index space, whose C order is that of the tensor; a shape is only how the axes are read."""

    axes: tuple[int, ...]
    boxes: tuple[Box, ...]

    def in_place(self, start: int, stop: int) -> np.ndarray | None:
        """A range of the C order as it lies in memory, where one box holds all of it in a row."""
        return _in_place(self.axes, self.boxes, start, stop)


def _in_place(axes: tuple[int, ...], boxes: Sequence[Box], start: int, stop: int) -> np.ndarray | None:
    while axes:
        row = prod(axes[1:])
        first, last = start // row, (stop - 1) // row
        around = [(at, array) for at, array in boxes if at[0] <= first and last < at[0] + array.shape[0]]
        if first != last or len(axes) == 1:
            whole = [(at, array) for at, array in around if array.shape[1:] == axes[1:]]
            part = whole[0][1][first - whole[0][0][0] : last + 1 - whole[0][0][0]] if whole else None
            if part is None or not part.flags.c_contiguous:
                return None
            return part.reshape(-1)[start - first * row : stop - first * row]
        boxes = [(at[1:], array[first - at[0]]) for at, array in around]
        axes, start, stop = axes[1:], start - first * row, stop - first * row
    return boxes[0][1].reshape(1)


Index = Any  # whatever numpy takes between brackets


class Source(ABC):
    """The values of one tensor, read when asked for and only as far as asked for."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @abstractmethod
    def view(self) -> np.ndarray:
        """The whole tensor, mapped where the format allows it, else read."""

    def stamp(self) -> object:
        """Something that changes when the values do; None where they cannot."""
        return None

    def read(self, index: Index = ...) -> np.ndarray:
        """A copy of a slice; pages, or chunks, outside it are not touched where the format allows it."""
        return np.array(self.view()[index], dtype=self.dtype)

    def boxes(self) -> Boxes | None:
        """Return the strided views that hold the values; None if the values are computed or decoded on reading."""
        return None

    def window(self, start: int, stop: int) -> np.ndarray:
        """Elements `start` to `stop` in C order, 1-d, native byte order; not to be written to."""
        view = self.view()
        if view.flags.c_contiguous:
            return view.reshape(-1)[start:stop].astype(self.dtype, copy=False)
        return _window_of_strided(view, start, stop).astype(self.dtype, copy=False)


@final
class ArraySource(Source):
    """An array that is in memory already."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self.shape = array.shape
        self.dtype = array.dtype.newbyteorder("=")

    def view(self) -> np.ndarray:
        return self._array

    def boxes(self) -> Boxes:
        return Boxes(self.shape, (((0,) * self._array.ndim, self._array),))


def _window_of_strided(view: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Copy just the leading-axis rows that hold the window, one axis at a time."""
    if start >= stop:
        return np.empty(0, view.dtype)
    while view.ndim > 1:
        row = prod(view.shape[1:])
        first, last = start // row, (stop - 1) // row + 1
        view, start, stop = view[first:last], start - first * row, stop - first * row
        if last - first > 1:
            break
        view = view[0]
    return np.ascontiguousarray(view).reshape(-1)[start:stop]
