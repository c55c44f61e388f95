"""The two ways rotary embeddings pair the numbers of a head: neighbours, or one from each half."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import final

import numpy as np

from firstdiff.align.crop import Crop
from firstdiff.align.join import Concat
from firstdiff.align.notation import Shape
from firstdiff.align.rearrange import Rearrange
from firstdiff.align.steps import Arguments, Step, axis_of, write_call
from firstdiff.align.tiled import Tiled
from firstdiff.errors import UsageError

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
