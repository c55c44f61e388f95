"""The dataflow of one run, from its records, and the arguments of its functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import final

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.pairing.generated_names import is_telling
from firstdiff.pairing.strategy import Proposal, Side, Situation
from firstdiff.pairing.weight_uses import WeightUses
from firstdiff.trace import Record

_EXECUTED = frozenset({"input", "output"})
_LARGEST = 1 << 20  # elements of a tensor that is read to tell what it may be a view of
_Call = tuple[str, int, int, int]


@final
class Dataflow:
    """The tensors that each tensor of a run is computed from, as far as the run recorded inputs."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._ranges: dict[int, tuple[float, float] | None] = {}
        self._records: list[Record | None] = [
            tensor.record if key.role in _EXECUTED else None for tensor, key in zip(side.trace, side.keys, strict=True)
        ]

    @property
    def is_recorded(self) -> bool:
        """False for taps: what they are computed from is not known."""
        return any(record is not None and record.sources for record in self._records)

    def upstream(self, places: Iterable[int]) -> set[int]:
        """Return everything that some tensors are computed from, and themselves."""
        found: set[int] = set()
        waiting = list(places)
        while waiting:
            place = waiting.pop()
            if place not in found:
                found.add(place)
                waiting += self._fed[place]
        return found

    def sources(self, place: int) -> list[int]:
        """Return what a tensor is computed from directly."""
        return self._fed[place]

    @cached_property
    def users(self) -> list[list[int]]:
        """What is computed directly from each tensor; what is handed down leads to what is made of it there."""
        found: list[list[int]] = [[] for _ in self._records]
        handed_down: dict[int, list[int]] = defaultdict(list)
        for place, record in enumerate(self._records):
            if record is None:
                continue
            sources = self._fed[place]
            for source in sources if record.role == "input" or record.is_function else self._results(place):
                found[source].append(place)
                for given in handed_down[source]:
                    if f"{record.parent}.".startswith(f"{self._side.keys[given].name}."):
                        found[given].append(place)
            if record.role == "input" and len(sources) == 1:
                handed_down[sources[0]].append(place)
        return found

    def uses(self, place: int) -> list[int]:
        """Return what is computed directly from a tensor; from an input, as far as it happens in that call.

        Where no record tells what a call makes of an input, it is what the call gives.
        """
        record = self._records[place]
        if record is None or record.role != "input":
            return self.users[place]
        inside = [at for at in self.users[place] if self._is_in_call(at, record)]
        return inside or self._given_by[record.name, record.call, record.step, record.rank]

    @cached_property
    def _given_by(self) -> dict[_Call, list[int]]:
        found: dict[_Call, list[int]] = defaultdict(list)
        for place, record in enumerate(self._records):
            if record is not None and record.role == "output":
                found[record.name, record.call, record.step, record.rank].append(place)
        return found

    def _is_in_call(self, place: int, given: Record) -> bool:
        record = self._records[place]
        return record is not None and (record.name == given.name or f"{record.parent}.".startswith(f"{given.name}."))

    def _results(self, place: int) -> list[int]:
        """Return what a module may give back: of what was made in it the last, and what has the size of the output."""
        inner = [source for source in self._fed[place] if not self._is_input(source)]
        sizes = self._side.sizes
        return [at for at in inner if at == max(inner) or sizes[at] == sizes[place]] or self._fed[place]

    def _is_input(self, place: int) -> bool:
        record = self._records[place]
        return record is not None and record.role == "input"

    @cached_property
    def _fed(self) -> list[list[int]]:
        return list(self._feeding())

    def _feeding(self) -> Iterator[list[int]]:
        by_seq: dict[tuple[int, int], int] = {}
        inputs: dict[_Call, list[int]] = defaultdict(list)
        inner: dict[str, list[int]] = defaultdict(list)  # what the code of a module made since it was entered
        for place, record in enumerate(self._records):
            if record is None:
                yield []
                continue
            call = record.name, record.call, record.step, record.rank
            if record.role == "input":
                if not record.is_function and call not in inputs:
                    inner[record.name] = []
                inputs[call].append(place)
            known = (by_seq.get((record.rank, seq)) for seq in record.sources)
            fed = [source for source in known if source is not None]
            if not fed and record.role == "input":
                fed = self._views(place, inner[record.parent or ""])
            elif not fed:
                fed = [*inputs[call], *inner[record.name]]
            yield fed
            if record.seq is not None:
                by_seq[record.rank, record.seq] = place
            inner[record.name if record.role == "input" else record.parent or ""].append(place)

    def _views(self, place: int, made: list[int]) -> list[int]:
        """Return what an input without a source may be a view of: tensors of its size, else parts or repetitions."""
        source = self._side.tensor(place).source
        if source is None or source.size <= 1:  # a number in the code
            return []
        found: dict[tuple[bool, bool], list[int]] = defaultdict(list)
        for at in made:
            other = self._side.tensor(at).source
            if other is None or other.dtype.kind != source.dtype.kind or other.size <= 1:
                continue
            if max(other.size, source.size) % min(other.size, source.size) == 0:
                found[self._have_one_range(place, at), other.size == source.size].append(at)
        kinds = ((True, True), (True, False), (False, True), (False, False))
        return next((found[kind] for kind in kinds if kind in found), [])

    def _have_one_range(self, place: int, other: int) -> bool:
        """True if the least and the greatest values are the same, as those of a view and of repeated values are."""
        own, others = self._range(place), self._range(other)
        return own is not None and own == others

    def _range(self, place: int) -> tuple[float, float] | None:
        if place not in self._ranges:
            self._ranges[place] = None
            source = self._side.tensor(place).source
            if source is not None and source.size <= _LARGEST and source.dtype.kind != "c":
                with suppress(ReadError):
                    values = np.asarray(source.window(0, source.size))
                    self._ranges[place] = float(values.min()), float(values.max())
        return self._ranges[place]


_CONFIDENCE = 0.75
_WHY = "the same argument of calls that are a pair"


def operand_proposals(situation: Situation) -> list[Proposal]:
    """Pair free arguments of paired calls: functions whose name tells their purpose, and what weights make one."""
    sides = situation.reference, situation.candidate
    free = frozenset(sides[0].free), frozenset(sides[1].free)
    return [
        Proposal((place,), (other,), _CONFIDENCE, why=_WHY)
        for place, other in _argument_pairs(situation)
        if place in free[0] and other in free[1] and sides[0].sizes[place] == sides[1].sizes[other]
    ]


def _argument_pairs(situation: Situation) -> Iterator[tuple[int, int]]:
    sides = situation.reference, situation.candidate
    arguments = Arguments(sides[0]), Arguments(sides[1])
    uses = WeightUses(sides[0]), WeightUses(sides[1])
    for calls in situation.anchors:
        if sides[0].keys[calls[0]].role != "output":
            continue
        ops = [side.tensor(at).record.op for side, at in zip(sides, calls, strict=True)]
        kinds = [of.kind(at) for of, at in zip(uses, calls, strict=True)]
        if ops[0] == ops[1] and is_telling(ops[0]):
            yield from _same_arguments(arguments, calls)
        elif kinds[0] is not None and kinds[0] == kinds[1]:
            yield from _lone_argument(arguments, calls)


def _same_arguments(arguments: tuple[Arguments, Arguments], calls: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the arguments of one name of two calls."""
    candidate = dict(arguments[1].of(calls[1]))
    return [(at, candidate[slot]) for slot, at in arguments[0].of(calls[0]) if slot in candidate]


def _lone_argument(arguments: tuple[Arguments, Arguments], calls: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the only arguments of two calls, as what was given and as the values of which it was made."""
    given = [[at for _, at in of.of(call)] for of, call in zip(arguments, calls, strict=True)]
    if any(len(places) != 1 for places in given):
        return []
    made = [of.made(places[0]) for of, places in zip(arguments, given, strict=True)]
    return [(made[0], made[1]), (given[0][0], given[1][0])]


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

    def made(self, place: int) -> int:
        """Return the tensor that was handed down as an input, or the input if nobody knows."""
        while (origin := self.origin(place)) is not None:
            place = origin
        return place
