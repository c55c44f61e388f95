"""A fault, the subject it is planted in, and the site where it must show."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from torch import nn

    from firstdiff.trace import Record


T = TypeVar("T")


class NotHere(Exception):  # noqa: N818
    """The model has no place for the fault; the text says what was looked for."""


@dataclass(frozen=True, slots=True)
class Site:
    """The site of a fault.

    module: the module whose own code, weights or settings are wrong
    given: what the module is given is wrong (`module:in.0`): its caller made it so
    """

    module: str
    given: bool = False

    def holds(self, record: Record) -> bool:
        """True if a tensor is made here: an output of the module, a function in its code, or an input of a child."""
        if record.name == self.module:
            return self.given or record.role != "input"
        return record.parent == self.module


@dataclass(slots=True)
class Subject:
    """A model about to get a fault.

    architecture: its name
    model, inputs: copies of the reference's; a fault changes them
    random: decides the layer and the like
    attempt: number of times the fault was too small; it is planted larger each time
    """

    architecture: str
    model: nn.Module
    inputs: dict[str, Any]
    random: random.Random
    attempt: int = 0

    def one_of(self, what: str, fits: Callable[[str, nn.Module], bool]) -> tuple[str, Any]:
        """Choose a module at random among those that fit, with its name."""
        found = [(name, module) for name, module in self.model.named_modules() if fits(name, module)]
        return self.choice(what, found)

    def of_kind(self, *kinds: str) -> tuple[str, Any]:
        """Choose a module at random whose class has one of these names."""
        return self.one_of(" or ".join(kinds), lambda _, module: type(module).__name__ in kinds)

    def named(self, *ends: str) -> tuple[str, Any]:
        """Choose a module at random whose name ends so."""
        return self.one_of(" or ".join(ends), lambda name, _: name.endswith(ends))

    def choice(self, what: str, found: Sequence[T]) -> T:
        if not found:
            raise NotHere(f"{self.architecture} has no {what}")
        return self.random.choice(found)

    def stronger(self, first: float, factor: float = 4.0) -> float:
        """Return a strength that grows with every attempt."""
        return float(first * factor**self.attempt)


Plant = Callable[[Subject], Site]
_registered: dict[str, Fault] = {}


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of mistake.

    kind: its name
    causes: codes that count as right
    why: if there are several, why they say the same
    architectures: names of those it can be planted in
    plant: plants it in a subject and says where it must be found
    held_out: nothing is tuned on it, see `cases`
    """

    kind: str
    causes: tuple[str, ...]
    why: str
    architectures: tuple[str, ...]
    plant: Plant
    held_out: bool = False


def fault(kind: str, *causes: str, on: str, why: str = "", held_out: bool = False) -> Callable[[Plant], Plant]:
    """Register a function that plants a mistake as a fault.

    causes: codes that count as right; several only where they are the same fact, and `why` says so
    on: names of architectures, separated by spaces
    """

    def enter(plant: Plant) -> Plant:
        if kind in _registered:
            raise ValueError(f"there are two faults {kind!r}")
        if (len(causes) > 1) != bool(why):
            raise ValueError(f"{kind!r}: several causes need a reason, and one needs none")
        _registered[kind] = Fault(kind, causes, why, tuple(on.split()), plant, held_out)
        return plant

    return enter


def registered_faults() -> dict[str, Fault]:
    return dict(_registered)
