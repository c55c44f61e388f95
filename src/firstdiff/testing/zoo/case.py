"""The cases: every fault in every architecture that has a place for it, several times over."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from firstdiff.testing.zoo.faults import FAULTS


@dataclass(frozen=True, slots=True)
class Case:
    """One fault in one architecture; the seed decides the layer, the weights and the order of summation."""

    kind: str
    architecture: str
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.kind} / {self.architecture} / {self.seed}"


def cases(
    kinds: Collection[str] = (), architectures: Collection[str] = (), seed: int = 0, *, held_out: bool = False
) -> list[Case]:
    """Every fault once in each of its architectures, in a fixed order.

    kinds, architectures: only these; all if left out
    seed: another one puts the faults into other layers
    held_out: only faults kept apart, in architectures kept apart, that show whether explanations hold beyond the rest
    """
    return [
        Case(fault.kind, name, seed)
        for fault in FAULTS.values()
        for name in fault.architectures
        if fault.held_out == held_out
        if (not kinds or fault.kind in kinds) and (not architectures or name in architectures)
    ]
