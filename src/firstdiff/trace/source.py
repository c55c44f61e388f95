"""The interface to the values of a tensor, which are read on demand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import prod
from typing import Any, final

import numpy as np

from firstdiff.trace.boxes import Boxes

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
