"""The graph of rows that feed each other, from the reference's calls, their inner calls, and `from`."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

from firstdiff.locate.row import MeasuredPair
from firstdiff.trace import Record

# how far back in a caller's code a result is looked for that nothing has used yet
_RECENT = 64


@dataclass(frozen=True, slots=True)
class Feeding:
    """The rows that a row was computed from.

    rows: places of rows, in order
    guessed: the records do not tell; these are what came before
    incomplete: something else feeds it that was not compared, or not recorded
    outside: it is no result of anything: it was given to the model, or is a constant
    """

    rows: tuple[int, ...] = ()
    guessed: bool = False
    incomplete: bool = False
    outside: bool = False


@final
class RowGraph:
    """`direct` is what the records say; `compared` looks through rows that only the reference has."""

    def __init__(self, rows: Sequence[MeasuredPair]) -> None:
        self.rows = rows
        self.wrong_weights = _wrong_weights(rows)
        self.calls = Calls([None if row.is_evidence else row.record for row in rows])
        self._places = _by_seq(rows)
        self._has_inputs = any(row.record is not None and row.record.role == "input" for row in rows)
        self._outputs = [place for place, row in enumerate(rows) if row.record and not row.is_evidence]
        self._consumed = self._all_consumed()
        self.direct = [self._feeding(place) for place in range(len(rows))]
        self.compared = self._seen_through()

    def with_verdicts(self, rows: Sequence[MeasuredPair]) -> RowGraph:
        """Return the graph of the same rows with other verdicts: what the records say of them is read once."""
        graph = copy(self)
        graph.rows = rows
        graph.wrong_weights = _wrong_weights(rows)
        vars(graph).pop("settled", None)
        if any(row.compared != was.compared for row, was in zip(rows, self.rows, strict=True)):
            graph.compared = graph._seen_through()
        return graph

    def hidden(self, place: int) -> set[int]:
        """Return the rows that feed one and were not compared, with no compared row in between."""
        return self._upstream(self.direct[place].rows, lambda at: not self.rows[at].compared)

    @cached_property
    def settled(self) -> set[int]:
        """Rows that match, all that they were computed from, and what else the same calls gave."""
        matching = [at for at, row in enumerate(self.rows) if row.status == "match" and not row.is_evidence]
        outputs = (
            self.calls.of(at).outputs for at in matching if self.rows[at].role == "output" and self.rows[at].record
        )
        beside = {at for call in outputs for at in call if not self.rows[at].compared}
        return self._upstream([*matching, *beside], lambda _: True, self._certain_sources)

    def _certain_sources(self, place: int) -> tuple[int, ...]:
        """Return what a row is computed from; an unrecorded input is at most a view of what has its size."""
        row, fed = self.rows[place], self.direct[place].rows
        if row.role != "input" or row.record is None or row.record.sources:
            return fed
        size = _size(row)
        return tuple(at for at in fed if size is None or _size(self.rows[at]) in (None, size))

    def _upstream(
        self,
        places: Iterable[int],
        belongs: Callable[[int], bool],
        sources: Callable[[int], tuple[int, ...]] | None = None,
    ) -> set[int]:
        found: set[int] = set()
        waiting = list(places)
        while waiting:
            at = waiting.pop()
            if at not in found and belongs(at):
                found.add(at)
                waiting += sources(at) if sources else self.direct[at].rows
        return found

    def through(self, place: int, seq: int) -> int | None:
        """The row that brings a recorded tensor to a call: the input of a call around it, if the tensor is one."""
        record = self.rows[place].record
        origin = self._places.get((record.rank, seq)) if record else None
        if origin is None:
            return None
        outer = self.calls.around(place)
        while outer is not None and not (outer.inputs and outer.inputs[0] <= origin):
            for given in outer.inputs:
                said = self.rows[given].record
                if given < place and said is not None and said.sources == (seq,) and not said.attrs.get("view"):
                    return given
            farther = self.calls.around((outer.inputs or outer.outputs)[0])
            outer = farther if farther is not None and farther.end > outer.end else None
        return origin

    def _feeding(self, place: int) -> Feeding:
        row = self.rows[place]
        record = row.record
        if record is None or row.is_evidence:
            return Feeding(outside=True)
        if record.sources:
            return self._named(place, record)
        if record.role == "input":
            return self._computed_in_parent(place, record)
        return self._output(place, record)

    def _named(self, place: int, record: Record) -> Feeding:
        found = [self.through(place, seq) for seq in record.sources]
        there = _before(place, (origin for origin in found if origin is not None and not self.rows[origin].is_evidence))
        lost = any(origin is None for origin in found)
        if not self._has_inputs and record.role != "input":  # what is not a recorded output may feed it too
            return Feeding(_before(place, [*there, *self._guess(place).rows]), guessed=True)
        return Feeding(there, incomplete=lost, outside=not there and not lost)

    def _computed_in_parent(self, place: int, record: Record) -> Feeding:
        """An input that is no recorded tensor: made by its caller's code of what that had at hand."""
        outer = self.calls.around(place)
        if outer is None:
            return Feeding(outside=True) if record.parent is None else self._guess(place)
        fed = self._at_hand(outer, place)
        return Feeding(fed) if fed else Feeding(outside=True)

    def _output(self, place: int, record: Record) -> Feeding:
        call = self.calls.of(place)
        fed = self._at_hand(call, place)
        if fed:
            return Feeding(fed)
        if record.is_function and record.parent is not None and self._has_inputs:
            return Feeding(outside=True)  # a function of no tensors, such as arange
        return self._guess(place)

    def _at_hand(self, call: Call, place: int) -> tuple[int, ...]:
        """Return the rows available to a call's code: its inputs, the last call's outputs, and results not used yet."""
        inner = [at for at in before(call.inner, place)[-_RECENT:] if self._is_output(at)]
        last = self.calls.of(inner[-1]).outputs if inner else []
        unused = [at for at in inner if at not in self._consumed]
        return _before(place, [*call.inputs, *last, *unused])

    def _guess(self, place: int) -> Feeding:
        """Guess what feeds a row: the rows before it in the same caller's code, else what feeds the caller."""
        outer = self.calls.around(place)
        earlier = before(outer.inner if outer else self._outputs, place)
        name = self.rows[place].name
        there = (at for at in reversed(earlier) if self._is_output(at) and self._same_run(place, at))
        last = next((at for at in there if not in_parallel(name, self.rows[at].name)), None)
        if last is not None:
            recent = earlier[-_RECENT:] if outer else ()
            unused = [at for at in recent if at < last and at not in self._consumed]
            return Feeding(_before(place, [*unused, last]), guessed=True)
        if outer is not None and outer.inputs:
            return Feeding(_before(place, outer.inputs), guessed=True)
        if outer is not None and outer.outputs and outer.outputs[0] != place:
            fed = self._guess(outer.outputs[0])
            return Feeding(_before(place, fed.rows), guessed=True, incomplete=fed.incomplete)
        return Feeding(guessed=True, incomplete=True)

    def _seen_through(self) -> list[Feeding]:
        found: list[Feeding] = []
        for place, fed in enumerate(self.direct):
            rows: set[int] = set()
            guessed, incomplete = fed.guessed, fed.incomplete
            for at in fed.rows:
                if self.rows[at].compared:
                    rows.add(at)
                    continue
                rows.update(found[at].rows)
                guessed |= found[at].guessed
                incomplete |= found[at].incomplete or found[at].outside
            found.append(Feeding(_before(place, rows), guessed, incomplete, fed.outside))
        return found

    def _all_consumed(self) -> set[int]:
        used: set[int] = set()
        for row in self.rows:
            record = row.record
            if record is not None and not row.is_evidence:
                used.update(
                    self._places[record.rank, seq] for seq in record.sources if (record.rank, seq) in self._places
                )
        return used

    def _is_output(self, place: int) -> bool:
        return self.rows[place].role != "input"

    def _same_run(self, place: int, other: int) -> bool:
        one, two = self.rows[place], self.rows[other]
        return (one.step, one.rank) == (two.step, two.rank)


def _size(row: MeasuredPair) -> int | None:
    source = row.reference.source if row.reference is not None else None
    return None if source is None else source.size


def _wrong_weights(rows: Sequence[MeasuredPair]) -> list[str]:
    return [row.name for row in rows if row.is_evidence and row.differs]


def _by_seq(rows: Sequence[MeasuredPair]) -> dict[tuple[int, int], int]:
    return {
        (record.rank, record.seq): place
        for place, row in enumerate(rows)
        if (record := row.record) is not None and record.seq is not None
    }


def _before(place: int, places: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted({at for at in places if at < place}))


_Name = tuple[str, int, int]


@dataclass(slots=True)
class Call:
    """One call of a module or function, by the places of its rows. `inner` is what its code called directly."""

    name: str
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    inner: list[int] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The row at which the call ended; beyond all rows if it did not, as when the model threw."""
        return self.outputs[0] if self.outputs else 1 << 62


@final
class Calls:
    """Every call, found by one of its rows or by a row inside it."""

    def __init__(self, records: Sequence[Record | None]) -> None:
        """Take the records of a run in its order; None for what no call made, such as weights."""
        self._records = records
        self._by_row: dict[int, Call] = {}
        self._by_name: dict[_Name, list[Call]] = {}
        self._gather()
        self._ends = {name: [call.end for call in calls] for name, calls in self._by_name.items()}
        self._nest()

    def of(self, place: int) -> Call:
        """The call that a row is an input or output of."""
        return self._by_row[place]

    def around(self, place: int) -> Call | None:
        """The call whose code made this one."""
        record = self._records[place]
        if record is None or record.parent is None:
            return None
        name = record.parent, record.step, record.rank
        calls = self._by_name.get(name)
        if not calls:
            return None
        at = bisect_right(self._ends[name], place)
        return calls[at] if at < len(calls) else None

    def _gather(self) -> None:
        numbered: dict[tuple[str, int, int, int], Call] = {}
        for place, record in enumerate(self._records):
            if record is None:
                continue
            call = numbered.setdefault((record.name, record.call, record.step, record.rank), Call(record.name))
            (call.inputs if record.role == "input" else call.outputs).append(place)
            self._by_row[place] = call
            same_name = self._by_name.setdefault((record.name, record.step, record.rank), [])
            if not same_name or same_name[-1] is not call:
                same_name.append(call)
        for calls in self._by_name.values():
            calls.sort(key=lambda call: call.end)

    def _nest(self) -> None:
        for place in self._by_row:
            outer = self.around(place)
            if outer is not None and outer is not self._by_row[place]:
                outer.inner.append(place)


def before(places: Sequence[int], place: int) -> Sequence[int]:
    """Those of some places, in order, that come before one."""
    return places[: bisect_left(places, place)]


_GROUPS = (
    "q k v query key value q_proj k_proj v_proj wq wk wv to_q to_k to_v attn_q attn_k attn_v qcur kcur vcur".split(),
    "gate up gate_proj up_proj w1 w3 ffn_gate ffn_up fc1 fc3".split(),
)
_BRANCH = {word: group for group, words in enumerate(_GROUPS) for word in words}
_PARTS = re.compile(r"[./\-]|^\d+_|-\d+$")


def in_parallel(one: str, other: str) -> bool:
    """True if two names are branches of one layer: `0_query` and `0_key`, `layers.3.q_proj` and `layers.3.v_proj`."""
    reference, candidate = _branch(one), _branch(other)
    return one != other and reference is not None and reference == candidate


def _branch(name: str) -> tuple[int, str] | None:
    """The group of the last part that is a branch, and the name without it."""
    parts = [part for part in _PARTS.split(name) if part]
    group = _BRANCH.get(parts[-1].lower()) if parts else None
    return None if group is None else (group, name[: name.rfind(parts[-1])])
