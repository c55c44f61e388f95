"""The steps of a recipe: rearrange (permute and reshape), crop, and the interface of every step."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self, final

import numpy as np

from firstdiff.align.notation import Bound, Pattern, Shape, bind, parse_pattern
from firstdiff.align.strided import Tiled
from firstdiff.errors import UsageError

_CALL = re.compile(r"(?P<name>\w+)\((?P<arguments>[^()]*)\)")
_ARGUMENT = re.compile(r"(?P<key>\w+)=(?P<values>-?\d+(?: +-?\d+)*)")


class Step(ABC):
    """One tensor in, one tensor out."""

    @abstractmethod
    def __str__(self) -> str:
        """The text that `Recipe.parse` reads."""

    @property
    @abstractmethod
    def moves(self) -> tuple[str, ...]:
        """Names of the moves, such as `permute` and `flatten`."""

    @abstractmethod
    def shape(self, shape: Shape) -> Shape:
        """The shape that comes out; UsageError says what does not fit."""

    @abstractmethod
    def pull(self, shape: Shape, flat: np.ndarray) -> np.ndarray:
        """The plain definition: where in the input (of this shape) the elements at `flat` of the output come from."""

    @abstractmethod
    def view(self, tensor: Tiled) -> Tiled | None:
        """The output as views of the input; None where strides cannot say it."""


class Join(ABC):
    """Several tensors in, one out; `by` of them at a time, where they form a grid."""

    by: int | None

    @abstractmethod
    def __str__(self) -> str:
        """The text that `Recipe.parse` reads."""

    @property
    @abstractmethod
    def moves(self) -> tuple[str, ...]:
        """Names of the moves."""

    @abstractmethod
    def shape(self, shapes: Sequence[Shape]) -> Shape:
        """The shape that comes out; UsageError says what does not fit."""


class Assembly(Join):
    """A join that puts every element of its inputs somewhere and changes none."""

    @abstractmethod
    def pull(self, shapes: Sequence[Shape], flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The plain definition: which input the elements at `flat` come from, and where in it they are."""

    @abstractmethod
    def view(self, tensors: Sequence[Tiled]) -> Tiled | None:
        """The output as views of the inputs; None where strides cannot say it."""


class Arguments:
    """The words between the parentheses of `name(key=1, other=2 3)`."""

    def __init__(self, text: str, given: Mapping[str, tuple[int, ...]]) -> None:
        self.text = text
        self._given = dict(given)

    @classmethod
    def parse(cls, text: str) -> tuple[str, Self]:
        """Name and arguments of a call; UsageError says what makes no sense."""
        call = _CALL.fullmatch(text.strip())
        if call is None:
            raise UsageError(
                f"{text.strip()!r} is no step of a recipe; write 'b s -> s b', '[:, 0:8]' or 'concat(axis=0)'"
            )
        given: dict[str, tuple[int, ...]] = {}
        for part in filter(None, (part.strip() for part in call["arguments"].split(","))):
            argument = _ARGUMENT.fullmatch(part)
            if argument is None or argument["key"] in given:
                raise UsageError(f"{part!r} in {text.strip()!r} should be a name and numbers, as axis=0 or order=1 0")
            given[argument["key"]] = tuple(int(word) for word in argument["values"].split())
        return call["name"], cls(text.strip(), given)

    def number(self, key: str, default: int | None = None) -> int:
        values = self._given.pop(key, None if default is None else (default,))
        if values is None or len(values) != 1:
            raise UsageError(f"{self.text!r} needs one number for {key}, as {key}=2")
        return values[0]

    def optional(self, key: str) -> int | None:
        return self.number(key) if key in self._given else None

    def numbers(self, key: str, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        values = self._given.pop(key, default)
        if values is None:
            raise UsageError(f"{self.text!r} needs numbers for {key}, as {key}=1 0")
        return values

    def finish(self) -> None:
        """Nothing may be left over."""
        if self._given:
            raise UsageError(f"{self.text!r} has {next(iter(self._given))!r}, which that step does not take")


def write_call(name: str, **arguments: int | Sequence[int] | None) -> str:
    parts = []
    for key, value in arguments.items():
        if value is not None and value != ():
            words = [value] if isinstance(value, int) else value
            parts.append(f"{key}={' '.join(map(str, words))}")
    return f"{name}({', '.join(parts)})"


def axis_of(axis: int, shape: Shape, step: object) -> int:
    """A stated axis, counted from the front; UsageError if the tensor has no such axis."""
    if not -len(shape) <= axis < len(shape):
        raise UsageError(f"'{step}' names axis {axis}, but the tensor has {len(shape)} axes: {list(shape)}")
    return axis % len(shape)


@final
@dataclass(frozen=True, slots=True)
class Rearrange(Step):
    pattern: Pattern

    @classmethod
    def parse(cls, text: str) -> Rearrange:
        return cls(parse_pattern(" ".join(text.split())))

    def __str__(self) -> str:
        return str(self.pattern)

    @property
    def moves(self) -> tuple[str, ...]:
        left, right = self.pattern.left, self.pattern.right
        repeated = set(self.pattern.repeated)
        before = [axis.name for group in left for axis in group]
        after = [axis.name for group in right for axis in group if axis not in repeated]
        found = {
            "squeeze": left.count(()) > right.count(()),
            "unflatten": any(len(group) > 1 and not _stays(group, right) for group in left),
            "permute": before != after,
            "repeat": bool(repeated),
            "flatten": any(len(group) > 1 and not _stays(group, left) for group in right),
            "unsqueeze": left.count(()) < right.count(()),
        }
        return tuple(name for name, done in found.items() if done)

    def shape(self, shape: Shape) -> Shape:
        return bind(self.pattern, shape).shape

    def pull(self, shape: Shape, flat: np.ndarray) -> np.ndarray:
        bound = bind(self.pattern, shape)
        digits: dict[str, np.ndarray] = {}
        rest = flat
        for name in reversed(_flattened(bound.right)):
            rest, digits[name] = np.divmod(rest, bound.sizes[name])
        source = np.zeros_like(flat)
        for name in _flattened(bound.left):
            source = source * bound.sizes[name] + digits[name]
        return source

    def view(self, tensor: Tiled) -> Tiled | None:
        bound = bind(self.pattern, tensor.shape)
        names = _flattened(bound.left)
        refined = tensor.refined(bound.sizes[name] for name in names)
        if refined is None:
            return None
        finer, groups = refined
        return _permuted(finer, bound, dict(zip(names, groups, strict=True)))


def _permuted(tensor: Tiled, bound: Bound, axes: dict[str, list[int]]) -> Tiled:
    order: list[int] = []
    repeats: list[tuple[int, int]] = []
    for name in _flattened(bound.right):
        if name not in bound.repeated:
            order += axes[name]
        elif bound.sizes[name] > 1:
            repeats.append((len(order) + len(repeats), bound.sizes[name]))
    arranged = tensor.permuted(order, tuple(tensor.axes[axis] for axis in order))
    for at, times in repeats:
        arranged = arranged.repeated(at, times)
    return arranged.shaped(bound.shape)


def _flattened(groups: tuple[tuple[str, ...], ...]) -> list[str]:
    return [name for group in groups for name in group]


def _stays(group: tuple[object, ...], groups: tuple[tuple[object, ...], ...]) -> bool:
    names = [str(axis).partition("=")[0] for axis in group]
    return any(names == [str(axis).partition("=")[0] for axis in other] for other in groups)


_RANGE = re.compile(r"(?P<start>-?\d+)?\s*:\s*(?P<stop>-?\d+)?")

Part = slice | int | None  # None stands for `...`


@final
@dataclass(frozen=True, slots=True)
class Crop(Step):
    """Ranges keep their axis, numbers drop it; steps between the elements are not taken."""

    parts: tuple[Part, ...]

    @classmethod
    def parse(cls, text: str) -> Crop:
        words = text.strip()[1:-1].split(",")
        parts = tuple(_parse_part(word.strip(), text.strip()) for word in words)
        if parts.count(None) > 1:
            raise UsageError(f"{text.strip()!r} has ... twice; once is enough")
        return cls(parts)

    @classmethod
    def along(cls, axis: int, start: int, stop: int) -> Crop:
        """A range of one axis, all of the others."""
        return cls((slice(None),) * axis + (slice(start, stop),))

    def __str__(self) -> str:
        return "[" + ", ".join(_write_part(part) for part in self.parts) + "]"

    @property
    def moves(self) -> tuple[str, ...]:
        return ("crop",)

    def shape(self, shape: Shape) -> Shape:
        ranges = self.ranges(shape)
        return tuple(stop - start for start, stop, kept in ranges if kept)

    def pull(self, shape: Shape, flat: np.ndarray) -> np.ndarray:
        ranges = self.ranges(shape)
        rest, source, stride = flat, np.zeros_like(flat), 1
        for (start, stop, _), length in zip(reversed(ranges), reversed(shape), strict=True):
            rest, digit = np.divmod(rest, max(stop - start, 1))
            source = source + (digit + start) * stride
            stride *= length
        return source

    def view(self, tensor: Tiled) -> Tiled | None:
        ranges = self.ranges(tensor.shape)
        refined = tensor.refined(tensor.shape)
        if refined is None:
            return None
        cropped, groups = refined
        for (start, stop, _), group, length in reversed(list(zip(ranges, groups, tensor.shape, strict=True))):
            if stop - start == length:
                continue
            inner = length // cropped.axes[group[0]]
            if start % inner or stop % inner:
                return None
            cropped = cropped.cropped(group[0], start // inner, stop // inner)
        return cropped.shaped(self.shape(tensor.shape))

    def ranges(self, shape: Shape) -> list[tuple[int, int, bool]]:
        """First, end, and whether the axis is kept, for every axis."""
        missing = len(shape) - sum(part is not None for part in self.parts)
        if missing < 0:
            raise UsageError(
                f"'{self}' names {len(shape) - missing} axes, but the tensor has {len(shape)}: {list(shape)}"
            )
        at = self.parts.index(None) if None in self.parts else len(self.parts)
        parts = [*self.parts[:at], *(slice(None),) * missing, *self.parts[at + 1 :]]
        return [self._range(part, axis, shape) for axis, part in enumerate(parts)]

    def _range(self, part: Part, axis: int, shape: Shape) -> tuple[int, int, bool]:
        length = shape[axis]
        kept = isinstance(part, slice)
        asked = part if isinstance(part, slice) else slice(part, None if part == -1 else (part or 0) + 1)
        bounds = [bound for bound in (asked.start, asked.stop) if bound is not None]
        start, stop, _ = asked.indices(length)
        if any(not -length <= bound <= length for bound in bounds) or start > stop or (not kept and start == stop):
            raise UsageError(f"'{self}' reaches outside axis {axis} of {list(shape)}, which has {length} elements")
        return start, stop, kept


def _parse_part(word: str, text: str) -> Part:
    if word == "...":
        return None
    if re.fullmatch(r"-?\d+", word):
        return int(word)
    found = _RANGE.fullmatch(word)
    if found is None:
        raise UsageError(f"{word!r} in {text!r} is no range; write 8:16, :16, 8:, : or a number")
    start, stop = (int(found[key]) if found[key] else None for key in ("start", "stop"))
    return slice(start, stop)


def _write_part(part: Part) -> str:
    if isinstance(part, slice):
        return f"{'' if part.start is None else part.start}:{'' if part.stop is None else part.stop}"
    return "..." if part is None else str(part)
