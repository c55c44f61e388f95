"""Tensors as strided views of their sources: rearranging moves no data until a window is read.

The C order of `axes` is the C order of the tensor, whatever its shape: axes are as fine as the views need. Axes of 1
are left out, and every tile is a box of the axes' index space.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from threading import Lock
from typing import Self, final

import numpy as np

from firstdiff import dtypes, memory
from firstdiff.align.lazy import Lazy, common_dtype
from firstdiff.align.notation import Shape
from firstdiff.trace import Box, Boxes, Source

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


@dataclass(frozen=True, slots=True)
class Tile:
    """A view with as many dimensions as there are axes, and the place of its first element among them."""

    start: tuple[int, ...]
    array: np.ndarray


@final
class Tiled(Lazy):
    def __init__(self, shape: Shape, axes: Shape, tiles: Sequence[Tile], dtype: np.dtype) -> None:
        super().__init__(shape, dtype)
        self.axes = axes
        self.tiles = tuple(tiles)

    @classmethod
    def of(cls, source: Source) -> Tiled:
        """A whole source as one tile."""
        if isinstance(source, Tiled):
            return source
        array = source.view()
        axes = tuple(n for n in source.shape if n != 1)
        return cls(source.shape, axes, [Tile((0,) * len(axes), array.reshape(axes))], source.dtype)

    def take(self, flat: np.ndarray) -> np.ndarray:
        if not flat.size:
            return np.empty(flat.shape, self.dtype)
        if len(self.tiles) == 1 and self.tiles[0].array.flags.c_contiguous:
            return np.asarray(self.tiles[0].array.reshape(-1)[flat], self.dtype)
        if not self.axes:
            return np.full(flat.shape, self.tiles[0].array, self.dtype)
        index = np.unravel_index(flat, self.axes)
        taken = np.empty(flat.shape, self.dtype)
        for tile in self.tiles:
            local = [axis - first for axis, first in zip(index, tile.start, strict=True)]
            if len(self.tiles) == 1:
                return np.asarray(tile.array[tuple(local)], self.dtype)
            here = np.ones(flat.shape, bool)
            for axis, length in zip(local, tile.array.shape, strict=True):
                here &= (axis >= 0) & (axis < length)
            taken[here] = tile.array[tuple(axis[here] for axis in local)]
        return taken

    @cached_property
    def _slabs(self) -> Slabs:
        return Slabs(self.boxes(), self.dtype)

    def boxes(self) -> Boxes:
        return Boxes(self.axes, tuple((tile.start, tile.array) for tile in self.tiles))

    def window(self, start: int, stop: int) -> np.ndarray:
        return self._slabs.window(start, stop)

    def view(self) -> np.ndarray:
        if len(self.tiles) == 1:
            array = self.tiles[0].array
            if array.flags.c_contiguous or self.axes == tuple(n for n in self.shape if n != 1):
                return array.reshape(self.shape)
        return super().view()

    def shaped(self, shape: Shape) -> Tiled:
        """The same elements in the same order, read in another shape."""
        return self if shape == self.shape else Tiled(shape, self.axes, self.tiles, self.dtype)

    def refined(self, lengths: Iterable[int]) -> tuple[Self, list[list[int]]] | None:
        """Axes so fine that each of `lengths` (in C order) is a number of whole axes, and which axes those are.

        None where the two do not nest, as axes 4 x 6 and lengths 6 x 4.
        """
        wanted = list(lengths)
        cuts = sorted(_cuts(self.axes) | _cuts(wanted))
        if any(outer % inner for inner, outer in pairwise(cuts)):
            return None
        fine = tuple(outer // inner for inner, outer in pairwise(cuts))[::-1]
        finer = self._split_into(fine)
        groups, at = [], 0
        for length in wanted:
            group: list[int] = []
            while prod(fine[axis] for axis in group) < length:
                group.append(at)
                at += 1
            groups.append(group)
        return finer, groups

    def permuted(self, order: Sequence[int], shape: Shape) -> Tiled:
        """Axes in another order, read in a shape."""
        axes = tuple(self.axes[axis] for axis in order)
        tiles = [Tile(tuple(tile.start[axis] for axis in order), tile.array.transpose(order)) for tile in self.tiles]
        return Tiled(shape, axes, tiles, self.dtype)

    def repeated(self, at: int, times: int) -> Tiled:
        """A new axis in front of axis `at`, along which everything is the same; the shape is left to the caller."""
        axes = (*self.axes[:at], times, *self.axes[at:])
        tiles = []
        for tile in self.tiles:
            lengths = (*tile.array.shape[:at], times, *tile.array.shape[at:])
            array = np.broadcast_to(np.expand_dims(tile.array, at), lengths)
            tiles.append(Tile((*tile.start[:at], 0, *tile.start[at:]), array))
        return Tiled(axes, axes, tiles, self.dtype)

    def cropped(self, axis: int, start: int, stop: int) -> Tiled:
        """A range of one axis; the shape is left to the caller."""
        axes = (*self.axes[:axis], stop - start, *self.axes[axis + 1 :])
        tiles = []
        for tile in self.tiles:
            first, length = tile.start[axis], tile.array.shape[axis]
            low, high = max(first, start), min(first + length, stop)
            if low < high:
                part = tile.array[(slice(None),) * axis + (slice(low - first, high - first),)]
                tiles.append(Tile((*tile.start[:axis], low - start, *tile.start[axis + 1 :]), part))
        shorter = Tiled(axes, axes, tiles, self.dtype)
        return shorter.without(axis) if stop - start == 1 else shorter

    def unit(self, at: int) -> Tiled:
        """An axis of 1 in front of axis `at`, for the moment in which it is needed; the shape is left to the caller."""
        axes = (*self.axes[:at], 1, *self.axes[at:])
        tiles = [Tile((*tile.start[:at], 0, *tile.start[at:]), np.expand_dims(tile.array, at)) for tile in self.tiles]
        return Tiled(axes, axes, tiles, self.dtype)

    def without(self, axis: int) -> Tiled:
        """An axis of 1 left out; the shape is left to the caller."""
        axes = (*self.axes[:axis], *self.axes[axis + 1 :])
        tiles = [Tile((*tile.start[:axis], *tile.start[axis + 1 :]), tile.array.squeeze(axis)) for tile in self.tiles]
        return Tiled(axes, axes, tiles, self.dtype)

    def _split_into(self, fine: Shape) -> Tiled:
        tiled, at = self, 0
        while at < len(fine):
            if tiled.axes[at] != fine[at]:
                tiled = tiled._split(at, tiled.axes[at] // fine[at])
            at += 1
        return tiled.shaped(self.shape)

    def _split(self, axis: int, inner: int) -> Tiled:
        axes = (*self.axes[:axis], self.axes[axis] // inner, inner, *self.axes[axis + 1 :])
        tiles = [piece for tile in self.tiles for piece in _split_tile(tile, axis, inner)]
        return Tiled(axes, axes, tiles, self.dtype)


def concatenated(parts: Sequence[Tiled], axis: int, shape: Shape) -> Tiled:
    """Tensors whose axes agree except `axis`, one after the other along it."""
    tiles, at = [], 0
    for part in parts:
        for tile in part.tiles:
            start = (*tile.start[:axis], tile.start[axis] + at, *tile.start[axis + 1 :])
            tiles.append(Tile(start, tile.array))
        at += part.axes[axis]
    axes = (*parts[0].axes[:axis], at, *parts[0].axes[axis + 1 :])
    joined = Tiled(shape, axes, tiles, common_dtype([part.dtype for part in parts]))
    return joined.without(axis).shaped(shape) if at == 1 else joined


def _cuts(lengths: Iterable[int]) -> set[int]:
    """The strides of a C-ordered shape, and its size: where one axis ends and the next begins."""
    cuts = [1]
    for length in reversed(list(lengths)):
        cuts.append(cuts[-1] * length)
    return set(cuts)


def _split_tile(tile: Tile, axis: int, inner: int) -> Iterable[Tile]:
    """Boxes of the split index space that hold the same elements: rows of `inner`, and what sticks out of them."""
    first, length = tile.start[axis], tile.array.shape[axis]
    cuts = {first, first + length}
    if first // inner != (first + length - 1) // inner:
        cuts |= {-(-first // inner) * inner, (first + length) // inner * inner}
    bounds = sorted(cuts)
    for low, high in pairwise(bounds):
        part = tile.array[(slice(None),) * axis + (slice(low - first, high - first),)]
        rows, columns = max((high - low) // inner, 1), min(high - low, inner)
        array = part.reshape(*part.shape[:axis], rows, columns, *part.shape[axis + 1 :])
        yield Tile((*tile.start[:axis], low // inner, low % inner, *tile.start[axis + 1 :]), array)
