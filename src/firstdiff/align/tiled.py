"""A tensor laid out of strided views: rearranging it moves no data until a window of it is asked for.

The C order of `axes` is the C order of the tensor, whatever its shape is: axes are as fine as the views need, a shape
is only how they are read. Axes of 1 are left out, and every tile is a box of the axes' index space.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Self, final

import numpy as np

from firstdiff.align.lazy import Lazy, common_dtype
from firstdiff.align.notation import Shape
from firstdiff.align.windows import Slabs
from firstdiff.trace import Boxes, Source


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
