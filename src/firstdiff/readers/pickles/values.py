"""Values of a parsed pickle: plain data, and inert stand-ins for objects that only running code would build."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, final

from firstdiff.errors import ReadError, RefusedError
from firstdiff.trace import Source

MOST_ARGUMENTS = 16
_MOST_AXES = 64
_LARGEST = 1 << 63
_LONGEST_SHOWN = 120


@final
class Symbol:
    """The name of a function or class that a pickle mentions. It is never looked up."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


@final
class Opaque:
    """A stand-in for an object that no builder makes; `state` is what unpickling would have set on it."""

    __slots__ = ("name", "state")

    def __init__(self, name: str) -> None:
        self.name = name
        self.state: Any = None


@final
class Table:
    """A dictionary as the list of its keys and values in turn: keys from a stranger are not hashed."""

    __slots__ = ("flat",)

    def __init__(self, flat: list[Any] | None = None) -> None:
        self.flat: list[Any] = [] if flat is None else flat

    def items(self) -> Iterator[tuple[Any, Any]]:
        return zip(self.flat[::2], self.flat[1::2], strict=True)


@final
class Bag(list[Any]):
    """A set, with its elements as they came."""


class Leaf:
    """One tensor: its values, or why there are none."""

    __slots__ = ("attrs", "source")

    def __init__(self, source: Source | ReadError, attrs: dict[str, Any] | None = None) -> None:
        self.source = source
        self.attrs = attrs or {}


class Buildable(ABC):
    """A value that a pickle makes first and fills afterwards."""

    __slots__ = ()

    @abstractmethod
    def set_state(self, state: Any, budget: Budget) -> None: ...


@final
class Budget:
    """Work in proportion to the size of a pickle: what refers to itself a thousand times over runs out of it."""

    __slots__ = ("_left",)

    def __init__(self, size: int) -> None:
        self._left = 4 * size + 100_000

    def spend(self, amount: int) -> None:
        self._left -= amount
        if self._left < 0:
            raise RefusedError(
                "holds a pickle that repeats its parts out of all proportion to its size, as a bomb does"
            )


Builder = Callable[[tuple[Any, ...], Budget], Any]
Builders = Mapping[str, Builder]


def whole_numbers(given: Any) -> tuple[int, ...]:
    """A shape, or strides, from a file."""
    if type(given) is tuple and len(given) <= _MOST_AXES and all(type(n) is int and 0 <= n < _LARGEST for n in given):
        return given
    raise ReadError("has a shape or strides that are not whole numbers")


def refused(name: str) -> RefusedError:
    """The error for a symbol that only a program could make something of."""
    return RefusedError(f"asks for {shown(name)}, which firstdiff does not run; save plain tensors instead")


def shown(name: str) -> str:
    """A name from a file, fit for a message."""
    short = name if len(name) <= _LONGEST_SHOWN else name[:_LONGEST_SHOWN] + "…"
    return short if short.isprintable() else ascii(short)[1:-1]
