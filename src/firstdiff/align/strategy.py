"""What the solver is made of: ways to prepare a pair so that only the order of its axes is left to find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod

from firstdiff import plugins
from firstdiff.align.notation import Shape
from firstdiff.align.recipe import AnyStep
from firstdiff.align.sampling import Sight


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """One thing to try before the order of axes is searched.

    reference, candidate: steps for each side
    finish: steps for the candidate after its axes are in order; they undo those of the reference, which then has none
    cause: what to call it where it should not be there
    forced: whether the shapes alone call for it
    settled: whether equal shapes then mean equal order, so that axes need not be searched
    cost: how unusual it is; of two that fit, the lower one is the plainer
    luck: logarithm of the number of others like it that it was picked from, by the same values
    """

    reference: tuple[AnyStep, ...] = ()
    candidate: tuple[AnyStep, ...] = ()
    finish: tuple[AnyStep, ...] = ()
    cause: str | None = None
    forced: bool = True
    settled: bool = False
    cost: int = 0
    luck: float = 0.0


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to relate two layouts, and one entry of the hook `firstdiff.alignment`.

    name: what the list of things tried calls it
    supports: whether two shapes can be related this way at all: those of the reference and of the candidate
    prepare: what to try for the two tensors of a sight (lazily: the first that fits ends the search)
    cost: strategies of lower cost come first; 0 to 99, the built-in ones are multiples of 10
    moves_only: whether it leaves every value as it is, so that it is not tried where the two sides share too few
    """

    name: str
    supports: Callable[[Shape, Shape], bool]
    prepare: Callable[[Sight], Iterable[Prepared]]
    cost: int
    moves_only: bool = True

    @property
    def unusual(self) -> bool:
        """Whether it is tried only where the values tell enough, and stops at the first fit."""
        return self.cost >= 40


def same_size(reference: Shape, candidate: Shape) -> bool:
    return prod(reference) == prod(candidate)


def in_order(strategies: Sequence[Strategy] | None) -> list[Strategy]:
    """Those given, else those of the hook, the plainest first."""
    table: Sequence[Strategy] = plugins.loaded("alignment") if strategies is None else strategies
    return sorted(table, key=lambda strategy: strategy.cost)
