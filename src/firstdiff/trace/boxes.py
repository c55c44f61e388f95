"""The memory layout of a tensor that is not C contiguous: strided views, each a box of its index space."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

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
