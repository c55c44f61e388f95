"""What a recipe is made of: small moves of a tensor, each with a text, a plain definition and a way without copying."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np

from firstdiff.align.notation import Shape
from firstdiff.align.tiled import Tiled
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
        """What it does, in named moves: `permute`, `flatten`."""

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
        """What it does, in named moves."""

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
