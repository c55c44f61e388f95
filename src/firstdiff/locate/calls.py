"""The calls of a trace: what went into each, what came out, and what ran inside."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

from firstdiff.locate.row import MeasuredPair
from firstdiff.trace import Record

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
        """Where it was left; what never was, as when the model threw, is still running at the end."""
        return self.outputs[0] if self.outputs else 1 << 62


@final
class Calls:
    """Every call, found by one of its rows or by a row inside it."""

    def __init__(self, rows: Sequence[MeasuredPair]) -> None:
        self._records: list[Record | None] = [None if row.is_evidence else row.record for row in rows]
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
