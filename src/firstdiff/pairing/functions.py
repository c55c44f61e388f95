"""Identify functions called in a module's code, whose numbered names compare only within the same code."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple, final

from firstdiff.pairing.fit import EQUAL, misfit
from firstdiff.pairing.side import Side
from firstdiff.pairing.strategy import Situation
from firstdiff.trace.record import is_function_op

_Call = tuple[str | None, int, int]
# arithmetic and moving values about: one of them in each module need not be the same one
_COMMON = frozenset(
    "add sub mul div pow neg sqrt rsqrt mean sum matmul cat stack chunk split getitem reshape view transpose permute "
    "squeeze unsqueeze expand contiguous flatten to float type clone where".split()
)


class Code(NamedTuple):
    """The context of a function call: its op, if it tells its purpose, and all that its module calls."""

    op: str | None
    called: tuple[str | None, ...]


def is_telling(op: str | None) -> bool:
    """True for a function that is called for one purpose, such as softmax; any code may add for any purpose."""
    return op is not None and is_function_op(op) and op not in _COMMON


def may_be_one_place(one: Code | None, other: Code | None) -> bool:
    """False for two functions that nothing but their place in different code speaks for."""
    if one is None or other is None or one.called == other.called:
        return True
    return one.op is not None and one.op == other.op


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
        return misfit(prints[0], place, prints[1], other) <= EQUAL

    def code_of(self, place: int, *, is_reference: bool) -> Code | None:
        """Return what tells a function's place in a run; None for what is no function."""
        side = self._situation.reference if is_reference else self._situation.candidate
        record = side.tensor(place).record
        if not record.is_function:
            return None
        telling = record.op if is_telling(record.op) and side.keys[place].role == "output" else None
        return Code(telling, self._called[0 if is_reference else 1].get(_call(side, place), ()))

    def _is_only_one(self, op: str | None, call: _Call, other: _Call) -> bool:
        """True for an operation that both modules do once, unless any code may have it for any purpose."""
        if not is_telling(op):
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
