"""Ranges of the C order out of strided boxes: whole rows where they lie so, small tiles where they must be turned."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from math import prod
from threading import Lock
from typing import final

import numpy as np

from firstdiff import dtypes, memory
from firstdiff.trace import Box, Boxes

_SMALL = 1 << 12  # elements that may be read in any order
_TILE = 1 << 16  # elements that are turned at once; both sides of it stay in the cache
_ODD = 8
_RUN = 256  # bytes in a row that make the way to another page of memory pay
_SLAB_BYTES = 1 << 25
_SLABS_KEPT = 3


@final
class Slabs:
    """Serves windows over boxes that fill an index space.

    Where the values lie along another axis than the last, a narrow window would use a few bytes of every line of
    memory it touches. Such windows are cut from slabs wide enough to use whole lines; the last few are kept.
    """

    def __init__(self, lying: Boxes, dtype: np.dtype) -> None:
        self._axes, boxes = lying.axes, lying.boxes
        self._dtype = dtype
        # bf16 and fp8 are copied as plain integers: numpy would take them one by one
        self._stored = dtypes.bits_of(dtype) if all(array.dtype == dtype for _, array in boxes) else dtype
        self._boxes = tuple((at, array.view(self._stored) if array.dtype == dtype else array) for at, array in boxes)
        self._lying = Boxes(self._axes, self._boxes)
        self._slab = self._slab_size()
        self._kept: OrderedDict[int, Future[np.ndarray]] = OrderedDict()
        self._lock = Lock()

    def window(self, start: int, stop: int) -> np.ndarray:
        stop = min(stop, prod(self._axes))
        if start >= stop:
            return np.empty(0, self._dtype)
        in_place = self._lying.in_place(start, stop)
        if in_place is not None:
            return in_place.astype(self._stored, copy=False).view(self._dtype)
        if stop - start >= self._slab:
            return self._filled(start, stop)
        pieces = []
        for number in range(start // self._slab, (stop - 1) // self._slab + 1):
            begin = number * self._slab
            pieces.append(self._slab_at(number)[max(start - begin, 0) : stop - begin])
        if len(pieces) == 1:
            return pieces[0]
        return np.concatenate(pieces, out=memory.empty((stop - start,), self._dtype))

    def _slab_at(self, number: int) -> np.ndarray:
        """One slab; a thread that finds another at work on it makes the next one meanwhile."""
        slab, mine = self._claimed(number)
        if mine:
            self._make(number, slab)
        elif not slab.done() and (number + 1) * self._slab < prod(self._axes):
            following, free = self._claimed(number + 1)
            if free:
                self._make(number + 1, following)
        return slab.result()

    def _claimed(self, number: int) -> tuple[Future[np.ndarray], bool]:
        """A slab that is there, or is being made, or is now for the caller to make."""
        with self._lock:
            slab = self._kept.get(number)
            mine = slab is None
            if slab is None:
                slab = self._kept[number] = Future()
            self._kept.move_to_end(number)
            while len(self._kept) > _SLABS_KEPT:
                self._kept.popitem(last=False)
        return slab, mine

    def _make(self, number: int, slab: Future[np.ndarray]) -> None:
        try:
            slab.set_result(self._filled(number * self._slab, min((number + 1) * self._slab, prod(self._axes))))
        except BaseException as error:
            slab.set_exception(error)
            raise

    def _filled(self, start: int, stop: int) -> np.ndarray:
        out = memory.empty((stop - start,), self._stored)
        _fill(out, self._axes, self._boxes, start, stop)
        return out.view(self._dtype)

    def _slab_size(self) -> int:
        """Elements of the narrowest window that uses whole lines; 0 where any window does."""
        sizes = [0]
        for _, array in self._boxes:
            fast = _fast_axis(array)
            if fast < array.ndim - 1:
                row = prod(self._axes[fast + 1 :])
                columns = min(max(_RUN // array.itemsize, 1), self._axes[fast], _SLAB_BYTES // (row * array.itemsize))
                sizes.append(row * max(columns, 1))
        return max(sizes)


def _fast_axis(array: np.ndarray) -> int:
    """The axis along which neighbours are nearest in memory; the last of several."""
    steps = [(abs(step), -axis) for axis, step in enumerate(array.strides) if step and array.shape[axis] > 1]
    return -min(steps)[1] if steps else array.ndim - 1


def _fill(out: np.ndarray, axes: tuple[int, ...], boxes: Sequence[Box], start: int, stop: int) -> None:
    if not axes:
        out[...] = boxes[0][1]
        return
    row = prod(axes[1:])
    first, last = start // row, -(-stop // row)
    whole_first, whole_last = -(-start // row), stop // row
    if whole_first < whole_last:
        low, high = whole_first * row - start, whole_last * row - start
        _fill_rows(out[low:high].reshape(-1, *axes[1:]), boxes, whole_first)
    for number in {first, last - 1} - set(range(whole_first, whole_last)):
        low, high = max(start, number * row), min(stop, (number + 1) * row)
        inside = [(at[1:], array[number - at[0]]) for at, array in boxes if 0 <= number - at[0] < array.shape[0]]
        _fill(out[low - start : high - start], axes[1:], inside, low - number * row, high - number * row)


def _fill_rows(out: np.ndarray, boxes: Sequence[Box], first: int) -> None:
    for start, array in boxes:
        low, high = max(start[0], first), min(start[0] + array.shape[0], first + out.shape[0])
        if low >= high:
            continue
        inner = tuple(slice(at, at + n) for at, n in zip(start[1:], array.shape[1:], strict=True))
        part = array[low - start[0] : high - start[0]]
        _copy(out[(slice(low - first, high - first), *inner)], part, _fast_axis(part))


def _copy(to: np.ndarray, array: np.ndarray, fast: int) -> None:
    """Copy tile by tile where the two run along different axes: halve the longest until a tile is small."""
    turned = prod(array.shape[fast:])
    if fast == array.ndim - 1 or turned <= _SMALL:
        np.copyto(to, array, casting="unsafe")
    elif array.size <= _TILE:
        _turn(to, array)
    else:
        axis = max(range(fast, array.ndim) if turned > _TILE else range(fast), key=lambda at: array.shape[at])
        middle = array.shape[axis] // 2
        for part in (slice(None, middle), slice(middle, None)):
            index = (slice(None),) * axis + (part,)
            _copy(to[index], array[index], fast)


def _turn(to: np.ndarray, array: np.ndarray) -> None:
    """Read a tile the way it lies, into rows of an odd length, and turn it from there.

    Reading it across would leave the memory no pattern to run ahead of, and powers of two, which sizes mostly are,
    would have all rows of a column compete for one place in the cache.
    """
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    *outer, inner = (array.shape[axis] for axis in order)
    rows = np.empty((*outer, inner + _ODD), array.dtype)[..., :inner]
    back = np.argsort(order)
    np.copyto(rows, array.transpose(order))
    np.copyto(to, rows.transpose(back), casting="unsafe")
