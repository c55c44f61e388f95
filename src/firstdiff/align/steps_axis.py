"""Steps along one axis: reorder chunks, heads, q, k and v; interleave or split rotary pairs."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import final

import numpy as np

from firstdiff.align.notation import Shape
from firstdiff.align.steps import Arguments, Crop, Rearrange, Step, axis_of, write_call
from firstdiff.align.steps_join import Concat
from firstdiff.align.strided import Tiled
from firstdiff.errors import UsageError


@final
@dataclass(frozen=True, slots=True)
class Chunks(Step):
    """`chunks(axis=1, order=1 0)` swaps the halves of axis 1.

    order: which chunk of the input comes first, second, …
    sizes: of the chunks of the input, where they are not equal
    """

    axis: int
    order: tuple[int, ...]
    sizes: tuple[int, ...] = ()

    @classmethod
    def read(cls, arguments: Arguments) -> Chunks:
        step = cls(arguments.number("axis"), arguments.numbers("order"), arguments.numbers("sizes", ()))
        if sorted(step.order) != list(range(len(step.order))):
            raise UsageError(f"the order of '{step}' must name every chunk from 0 to {len(step.order) - 1} once")
        if step.sizes and (len(step.sizes) != len(step.order) or min(step.sizes) < 1):
            raise UsageError(f"'{step}' needs one size above 0 for each of its {len(step.order)} chunks")
        return step

    def __str__(self) -> str:
        return write_call("chunks", axis=self.axis, order=self.order, sizes=self.sizes)

    @property
    def moves(self) -> tuple[str, ...]:
        return ("chunk order",)

    def shape(self, shape: Shape) -> Shape:
        self._lengths(shape)
        return shape

    def pull(self, shape: Shape, flat: np.ndarray) -> np.ndarray:
        return _pull_runs(shape, axis_of(self.axis, shape, self), self._runs(shape), flat)

    def view(self, tensor: Tiled) -> Tiled | None:
        return _view_runs(tensor, axis_of(self.axis, tensor.shape, self), self._runs(tensor.shape))

    def _lengths(self, shape: Shape) -> tuple[int, ...]:
        length = shape[axis_of(self.axis, shape, self)]
        if self.sizes and sum(self.sizes) != length:
            raise UsageError(
                f"the sizes of '{self}' add up to {sum(self.sizes)}, but that axis of {list(shape)} is {length}"
            )
        if not self.sizes and length % len(self.order):
            raise UsageError(f"'{self}' cuts an axis of {length} into {len(self.order)} equal chunks, which cannot be")
        return self.sizes or (length // len(self.order),) * len(self.order)

    def _runs(self, shape: Shape) -> list[tuple[int, int]]:
        lengths = self._lengths(shape)
        starts = [sum(lengths[:chunk]) for chunk in range(len(lengths))]
        return [(starts[chunk], starts[chunk] + lengths[chunk]) for chunk in self.order]


@final
@dataclass(frozen=True, slots=True)
class Ungroup(Step):
    """`ungroup(axis=0, groups=8, parts=256 64 64)`: eight groups of q, k and v become all q, all k, all v.

    groups: how many groups lie along the axis
    parts: how much of each group belongs to each part
    backwards: the way back, written `group(…)`
    """

    axis: int
    groups: int
    parts: tuple[int, ...]
    backwards: bool = False

    @classmethod
    def read(cls, arguments: Arguments, *, backwards: bool = False) -> Ungroup:
        step = cls(arguments.number("axis"), arguments.number("groups"), arguments.numbers("parts"), backwards)
        if step.groups < 1 or min(step.parts) < 1:
            raise UsageError(f"'{step}' needs at least one group, and parts above 0")
        return step

    @classmethod
    def read_backwards(cls, arguments: Arguments) -> Ungroup:
        return cls.read(arguments, backwards=True)

    def __str__(self) -> str:
        name = "group" if self.backwards else "ungroup"
        return write_call(name, axis=self.axis, groups=self.groups, parts=self.parts)

    @property
    def moves(self) -> tuple[str, ...]:
        return ("group parts",) if self.backwards else ("ungroup parts",)

    def shape(self, shape: Shape) -> Shape:
        length = shape[axis_of(self.axis, shape, self)]
        wanted = self.groups * sum(self.parts)
        if length != wanted:
            raise UsageError(f"'{self}' is for an axis of {wanted}, but that axis of {list(shape)} is {length}")
        return shape

    def pull(self, shape: Shape, flat: np.ndarray) -> np.ndarray:
        self.shape(shape)
        return _pull_runs(shape, axis_of(self.axis, shape, self), self._runs(), flat)

    def view(self, tensor: Tiled) -> Tiled | None:
        self.shape(tensor.shape)
        return _view_runs(tensor, axis_of(self.axis, tensor.shape, self), self._runs())

    def _runs(self) -> list[tuple[int, int]]:
        numbers = range(len(self.parts))
        before = [sum(self.parts[:number]) for number in numbers]
        if self.backwards:
            places = [(before[n] * self.groups + g * self.parts[n], n) for g in range(self.groups) for n in numbers]
        else:
            places = [(g * sum(self.parts) + before[n], n) for n in numbers for g in range(self.groups)]
        return [(start, start + self.parts[number]) for start, number in places]


def _pull_runs(shape: Shape, axis: int, runs: list[tuple[int, int]], flat: np.ndarray) -> np.ndarray:
    table = np.concatenate([np.arange(start, stop) for start, stop in runs])
    inner = prod(shape[axis + 1 :])
    outer, rest = np.divmod(flat, inner * shape[axis])
    along, low = np.divmod(rest, inner)
    return np.asarray((outer * shape[axis] + table[along]) * inner + low)


def _view_runs(tensor: Tiled, axis: int, runs: list[tuple[int, int]]) -> Tiled | None:
    parts = [Crop.along(axis, start, stop).view(tensor) for start, stop in runs]
    return None if None in parts else Concat(axis).view([part for part in parts if part is not None])


def order_cause(order: tuple[int, ...]) -> str:
    """Return the cause of chunks in another order: of two, of q, k and v, or of heads."""
    if len(order) == 3:
        return "layout.qkv_order"
    return "layout.chunk_swap" if len(order) == 2 else "layout.head_order"


_TO_INTERLEAVED = Rearrange.parse("a h (two=2 d) b -> a h (d two) b")


@final
@dataclass(frozen=True, slots=True)
class Rope(Step):
    """`rope_half(axis=2, head=64)` turns interleaved pairs into halves; `rope_interleave(…)` is the way back.

    head: numbers a head; the axis may hold several heads
    rotary: how many of them rotate; the rest stays where it is
    """

    axis: int
    head: int
    rotary: int
    to_half: bool

    @classmethod
    def read(cls, arguments: Arguments, *, to_half: bool = True) -> Rope:
        head = arguments.number("head")
        step = cls(arguments.number("axis"), head, arguments.number("rotary", head), to_half)
        if step.rotary % 2 or not 0 < step.rotary <= head:
            raise UsageError(f"'{step}' needs an even number of rotary elements, at most the {head} of a head")
        return step

    @classmethod
    def read_interleave(cls, arguments: Arguments) -> Rope:
        return cls.read(arguments, to_half=False)

    def __str__(self) -> str:
        name = "rope_half" if self.to_half else "rope_interleave"
        rotary = None if self.rotary == self.head else self.rotary
        return write_call(name, axis=self.axis, head=self.head, rotary=rotary)

    @property
    def moves(self) -> tuple[str, ...]:
        return ("rope interleaved -> half",) if self.to_half else ("rope half -> interleaved",)

    def shape(self, shape: Shape) -> Shape:
        length = shape[axis_of(self.axis, shape, self)]
        if length % self.head:
            raise UsageError(f"'{self}' needs whole heads, but that axis of {list(shape)} is {length}")
        return shape

    def pull(self, shape: Shape, flat: np.ndarray) -> np.ndarray:
        _, _, head, inner = self._unfolded(shape)
        high, rest = np.divmod(flat, head * inner)
        along, low = np.divmod(rest, inner)
        half = self.rotary // 2
        turned = along % half * 2 + along // half if self.to_half else along // 2 + along % 2 * half
        return (high * head + np.where(along < self.rotary, turned, along)) * inner + low

    def view(self, tensor: Tiled) -> Tiled | None:
        unfolded = tensor.shaped(self._unfolded(tensor.shape))
        pieces = self._halves(unfolded) if self.to_half else self._pairs(unfolded)
        if pieces is None:
            return None
        joined = Concat(2).view(pieces)
        return None if joined is None else joined.shaped(tensor.shape)

    def _halves(self, tensor: Tiled) -> list[Tiled] | None:
        outer, heads, head, inner = tensor.shape
        pairs = _cropped(tensor, 2, 0, self.rotary)
        if pairs is None:
            return None
        split = pairs.shaped((outer, heads, self.rotary // 2, 2, inner))
        pieces = [_cropped(split, 3, which, which + 1) for which in (0, 1)]
        shaped = [piece.shaped((outer, heads, self.rotary // 2, inner)) for piece in pieces if piece]
        rest = [] if self.rotary == head else [_cropped(tensor, 2, self.rotary, head)]
        return None if None in (*pieces, *rest) else [*shaped, *(piece for piece in rest if piece)]

    def _pairs(self, tensor: Tiled) -> list[Tiled] | None:
        outer, heads, head, inner = tensor.shape
        if (head - self.rotary) % 2:
            return None
        halves = _cropped(tensor, 2, 0, self.rotary)
        paired = None if halves is None else _TO_INTERLEAVED.view(halves)
        rest = [] if self.rotary == head else [_cropped(tensor, 2, self.rotary, head)]
        if None in (paired, *rest):
            return None
        whole = [piece for piece in (paired, *rest) if piece is not None]
        return [piece.shaped((outer, heads, piece.shape[2] // 2, 2 * inner)) for piece in whole]

    def _unfolded(self, shape: Shape) -> Shape:
        axis = axis_of(self.axis, self.shape(shape), self)
        return (prod(shape[:axis]), shape[axis] // self.head, self.head, prod(shape[axis + 1 :]))


def _cropped(tensor: Tiled, axis: int, start: int, stop: int) -> Tiled | None:
    return Crop.along(axis, start, stop).view(tensor)
