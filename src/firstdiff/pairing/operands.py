"""Pair the arguments of paired functions."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from dataclasses import replace
from typing import final

from firstdiff.pairing.functions import is_telling
from firstdiff.pairing.side import Side
from firstdiff.pairing.strategy import Proposal, Situation

_CONFIDENCE = 0.75
_EXECUTED = frozenset({"input", "output"})
_WHY = "the same argument of functions that are a pair"


def operand_proposals(situation: Situation) -> list[Proposal]:
    """Pair free arguments of paired functions whose name tells their purpose, such as softmax."""
    sides = situation.reference, situation.candidate
    arguments = Arguments(sides[0]), Arguments(sides[1])
    free = frozenset(sides[0].free), frozenset(sides[1].free)
    found = []
    for place, other in situation.anchors:
        ops = [side.tensor(at).record.op for side, at in zip(sides, (place, other), strict=True)]
        if ops[0] != ops[1] or not is_telling(ops[0]) or sides[0].keys[place].role != "output":
            continue
        theirs = dict(arguments[1].of(other))
        for slot, argument in arguments[0].of(place):
            partner = theirs.get(slot)
            if partner is None or argument not in free[0] or partner not in free[1]:
                continue
            if sides[0].sizes[argument] == sides[1].sizes[partner]:
                found.append(Proposal((argument,), (partner,), _CONFIDENCE, why=_WHY))
    return found


@final
class Arguments:
    """The arguments of a side's functions, whether they were recorded as such or are what another call gave.

    roles: of tensors that count as arguments
    """

    def __init__(self, side: Side, roles: Collection[str] = _EXECUTED) -> None:
        self._side = side
        self._by_seq: dict[int, int] = {}
        self._given: dict[Hashable, list[tuple[str, int]]] = {}
        for place, tensor in enumerate(side.trace):
            key, record = side.keys[place], tensor.record
            if record.seq is not None and key.role in roles:
                self._by_seq.setdefault(record.seq, place)
            if key.role == "input":
                self._given.setdefault(replace(key, role="output", slot="0"), []).append((key.slot, place))

    def of(self, place: int) -> Iterator[tuple[str, int]]:
        """Return each argument of a function by its name."""
        record = self._side.tensor(place).record
        yield from self._given.get(self._side.keys[place], ())
        slots = record.attrs.get("inputs")
        for slot, seq in zip(slots if isinstance(slots, list | tuple) else (), record.sources, strict=False):
            if seq in self._by_seq:
                yield str(slot), self._by_seq[seq]

    def origin(self, place: int) -> int | None:
        """Return the tensor that a recorded input is, or is a view of; None for what is no input or has several."""
        record = self._side.tensor(place).record
        if self._side.keys[place].role != "input" or len(record.sources) != 1:
            return None
        return self._by_seq.get(record.sources[0])
