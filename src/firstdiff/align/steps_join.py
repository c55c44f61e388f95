"""Steps that join several tensors: concatenate shards, stack replicas, add partial sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar, final

import numpy as np

from firstdiff.align.notation import Shape
from firstdiff.align.steps import Arguments, Assembly, Crop, Join, axis_of, write_call
from firstdiff.align.strided import Tiled, concatenated
from firstdiff.errors import UsageError

_T = TypeVar("_T")


@final
@dataclass(frozen=True, slots=True)
class Concat(Assembly):
    """One after the other along an axis they have."""

    axis: int
    by: int | None = None

    @classmethod
    def read(cls, arguments: Arguments) -> Concat:
        return cls(arguments.number("axis"), arguments.optional("by"))

    def __str__(self) -> str:
        return write_call("concat", axis=self.axis, by=self.by)

    @property
    def moves(self) -> tuple[str, ...]:
        return ("concat",)

    def shape(self, shapes: Sequence[Shape]) -> Shape:
        axis = axis_of(self.axis, shapes[0], self)
        first = shapes[0]
        for shape in shapes[1:]:
            if (shape[:axis], shape[axis + 1 :]) != (first[:axis], first[axis + 1 :]):
                raise UsageError(f"'{self}' cannot join {list(first)} and {list(shape)}: another axis differs too")
        return (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])

    def pull(self, shapes: Sequence[Shape], flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        whole = self.shape(shapes)
        axis = axis_of(self.axis, whole, self)
        inner = prod(whole[axis + 1 :])
        outer, rest = np.divmod(flat, inner * max(whole[axis], 1))
        along, low = np.divmod(rest, inner)
        lengths = np.array([shape[axis] for shape in shapes])
        ends = np.cumsum(lengths)
        which = np.searchsorted(ends, along, side="right")
        local = along - (ends - lengths)[which]
        return which, (outer * lengths[which] + local) * inner + low

    def view(self, tensors: Sequence[Tiled]) -> Tiled | None:
        whole = self.shape([tensor.shape for tensor in tensors])
        axis = axis_of(self.axis, whole, self)
        parts = [_with_axis(tensor, axis) for tensor in tensors if tensor.size]
        around = {(part[1], part[0].axes[: part[1]], part[0].axes[part[1] + 1 :]) for part in parts if part}
        if None in parts or len(around) != 1:
            return None
        return concatenated([part[0] for part in parts if part], next(iter(around))[0], whole)


def _with_axis(tensor: Tiled, axis: int) -> tuple[Tiled, int] | None:
    """The tensor with one axis for dimension `axis`, and its number; None if the dimension is made of several."""
    refined = tensor.refined(tensor.shape)
    if refined is None or len(refined[1][axis]) > 1:
        return None
    finer, groups = refined
    at = sum(len(group) for group in groups[:axis])
    return (finer if groups[axis] else finer.unit(at)), at


@final
@dataclass(frozen=True, slots=True)
class Stack(Assembly):
    """Tensors of one shape under a new first axis."""

    by: int | None = None

    @classmethod
    def read(cls, arguments: Arguments) -> Stack:
        return cls(arguments.optional("by"))

    def __str__(self) -> str:
        return write_call("stack", by=self.by)

    @property
    def moves(self) -> tuple[str, ...]:
        return ("stack",)

    def shape(self, shapes: Sequence[Shape]) -> Shape:
        return (len(shapes), *_same_shape(self, shapes))

    def pull(self, shapes: Sequence[Shape], flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        which, rest = np.divmod(flat, max(prod(shapes[0]), 1))
        return which, rest

    def view(self, tensors: Sequence[Tiled]) -> Tiled | None:
        return Concat(0).view([tensor.shaped((1, *tensor.shape)) for tensor in tensors])


@final
@dataclass(frozen=True, slots=True)
class Sum(Join):
    """Added up, element by element: what row-parallel ranks hold."""

    by: int | None = None

    @classmethod
    def read(cls, arguments: Arguments) -> Sum:
        return cls(arguments.optional("by"))

    def __str__(self) -> str:
        return write_call("sum", by=self.by)

    @property
    def moves(self) -> tuple[str, ...]:
        return ("partial sum",)

    def shape(self, shapes: Sequence[Shape]) -> Shape:
        return _same_shape(self, shapes)


@final
@dataclass(frozen=True, slots=True)
class Unstack:
    """One tensor taken apart along an axis, as a leading rank axis is, for a join to follow."""

    axis: int

    @classmethod
    def read(cls, arguments: Arguments) -> Unstack:
        return cls(arguments.number("axis"))

    def __str__(self) -> str:
        return write_call("unstack", axis=self.axis)

    @property
    def moves(self) -> tuple[str, ...]:
        return ("unstack",)

    def parts(self, shape: Shape) -> list[Crop]:
        axis = axis_of(self.axis, shape, self)
        return [Crop((*(slice(None),) * axis, number)) for number in range(shape[axis])]


@final
@dataclass(frozen=True, slots=True)
class Pick:
    """Tensors in another order, for a join to follow."""

    order: tuple[int, ...]

    @classmethod
    def read(cls, arguments: Arguments) -> Pick:
        return cls(arguments.numbers("order"))

    def __str__(self) -> str:
        return write_call("pick", order=self.order)

    @property
    def moves(self) -> tuple[str, ...]:
        return ("pick",)

    def of(self, items: Sequence[_T]) -> list[_T]:
        """The same items in this order; UsageError unless each is there once."""
        if sorted(self.order) != list(range(len(items))):
            raise UsageError(f"'{self}' must name each of the {len(items)} tensors once, counted from 0")
        return [items[number] for number in self.order]


def _same_shape(step: Join, shapes: Sequence[Shape]) -> Shape:
    other = next((shape for shape in shapes if shape != shapes[0]), None)
    if other is not None:
        raise UsageError(f"'{step}' needs tensors of one shape, but there are {list(shapes[0])} and {list(other)}")
    return shapes[0]
