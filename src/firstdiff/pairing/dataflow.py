"""The dataflow of one run, from its records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import final

from firstdiff.pairing.side import Side
from firstdiff.trace import Record

_EXECUTED = frozenset({"input", "output"})
_Call = tuple[str, int, int, int]


@final
class Dataflow:
    """The tensors that each tensor of a run is computed from, as far as the run recorded inputs."""

    def __init__(self, side: Side) -> None:
        self._side = side
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
        found: dict[bool, list[int]] = {True: [], False: []}
        for at in made:
            other = self._side.tensor(at).source
            if other is None or other.dtype.kind != source.dtype.kind or other.size <= 1:
                continue
            if max(other.size, source.size) % min(other.size, source.size) == 0:
                found[other.size == source.size].append(at)
        return found[True] or found[False]
