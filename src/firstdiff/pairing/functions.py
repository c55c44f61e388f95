"""Functions that a module's code calls: their names only number them, so they mean something in the same code alone."""

from __future__ import annotations

from collections import defaultdict
from typing import final

from firstdiff.pairing.fit import RELATED, misfit
from firstdiff.pairing.side import Side
from firstdiff.pairing.strategy import Situation

_Call = tuple[str | None, int, int]
# arithmetic and moving values about: one of them in each module need not be the same one
_COMMON = frozenset(
    "add sub mul div pow neg sqrt rsqrt mean sum matmul cat stack chunk split getitem reshape view transpose permute "
    "squeeze unsqueeze expand contiguous flatten to float type clone where".split()
)


@final
class FunctionNames:
    """Tells which functions may be paired by name: where both modules call the same ones, or the values are alike."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._called = _called(situation.reference), _called(situation.candidate)

    def tell(self, place: int, other: int) -> bool:
        """False for two functions that only have the same number in different code."""
        ours, theirs = self._situation.reference, self._situation.candidate
        records = ours.tensor(place).record, theirs.tensor(other).record
        if not (records[0].is_function and records[1].is_function):
            return True
        if self._called[0].get(_call(ours, place)) == self._called[1].get(_call(theirs, other)):
            return True
        if ours.sizes[place] != theirs.sizes[other]:
            return False
        if self._is_only_one(records[0].op, _call(ours, place), _call(theirs, other)):
            return True
        prints = self._situation.prints
        return misfit(prints[0], place, prints[1], other) <= RELATED

    def _is_only_one(self, op: str | None, call: _Call, other: _Call) -> bool:
        """True for an operation that both modules do once, unless any code may have it for any purpose."""
        if op is None or op in _COMMON:
            return False
        return self._called[0].get(call, ()).count(op) == self._called[1].get(other, ()).count(op) == 1


def _called(side: Side) -> dict[_Call, tuple[str | None, ...]]:
    """The functions that each module calls in a step, in their order."""
    found: dict[_Call, list[str | None]] = defaultdict(list)
    for place, tensor in enumerate(side.trace):
        if tensor.record.is_function and tensor.record.key.role == "output":
            found[_call(side, place)].append(tensor.record.op)
    return {call: tuple(ops) for call, ops in found.items()}


def _call(side: Side, place: int) -> _Call:
    return side.tensor(place).record.parent, side.keys[place].step, side.keys[place].rank
