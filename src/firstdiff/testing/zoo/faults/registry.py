"""The definition of a fault, and the registry of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from firstdiff.testing.zoo.subject import Site, Subject

Plant = Callable[[Subject], Site]
_faults: dict[str, Fault] = {}


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
    """Enters a function that plants a mistake as a fault.

    causes: codes that count as right; several only where they are the same fact, and `why` says so
    on: names of architectures, separated by spaces
    """

    def enter(plant: Plant) -> Plant:
        if kind in _faults:
            raise ValueError(f"there are two faults {kind!r}")
        if (len(causes) > 1) != bool(why):
            raise ValueError(f"{kind!r}: several causes need a reason, and one needs none")
        _faults[kind] = Fault(kind, causes, why, tuple(on.split()), plant, held_out)
        return plant

    return enter


def entered() -> dict[str, Fault]:
    return dict(_faults)
