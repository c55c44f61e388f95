"""Say which outputs of a trace an output depends on, so far as the recorder knows."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from firstdiff.trace import Key, Record

_WEIGHTS = ("param", "buffer")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An output that can be recorded alone.

    key: None where only its name is known, which then stands for all of its calls
    depends: earlier checkpoints that feed it, near or far: bit n is set for number n
    feeds: names of what it is computed from directly, and of its weights
    """

    name: str
    key: Key | None = None
    depends: int = 0
    feeds: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name if self.key is None else str(self.key)


def in_order(names: Iterable[str]) -> list[Checkpoint]:
    """Turn names into checkpoints, each of which depends on all before it."""
    return [Checkpoint(name, None, _all_before(number)) for number, name in enumerate(dict.fromkeys(names))]


def checkpoints_of(records: Sequence[Record]) -> list[Checkpoint]:
    """Turn the outputs of a trace, in its order, into checkpoints.

    Where the recorder says what tensors come from, that counts, and one of unknown origin, such as noise, depends on
    nothing. Elsewhere everything depends on all before it.
    """
    links = _Links(records)
    fed_by: list[int] = []  # of every line, as bits
    numbers: dict[int, int] = {}
    found: list[Checkpoint] = []
    for place, record in enumerate(records):
        direct = links.of(place)
        bits = 0
        for line in direct:
            bits |= fed_by[line] | (1 << numbers[line] if line in numbers else 0)
        fed_by.append(bits)
        if record.key.role == "output":
            numbers[place] = len(found)
            depends = bits if links.told else _all_before(len(found))
            near = [*direct, *(fed for line in direct if records[line].role == "input" for fed in links.of(line))]
            feeds = dict.fromkeys([*(records[line].name for line in near), *links.weights(record.name)])
            found.append(Checkpoint(record.name, record.key, depends, tuple(feeds)))
    return found


def _all_before(number: int) -> int:
    return (1 << number) - 1


class _Links:
    """Direct dependences between the lines of a trace."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self._by_seq = {(record.rank, record.seq): place for place, record in enumerate(records)}
        self._inputs: dict[Key, list[int]] = defaultdict(list)
        self._inner: dict[tuple[str, int], list[int]] = defaultdict(list)
        self._weights: dict[str, list[str]] = defaultdict(list)
        self.told = False
        for place, record in enumerate(records):
            if record.role in _WEIGHTS:
                self._weights[record.parent or record.name.rpartition(".")[0]].append(record.name)
                continue
            self.told |= bool(record.sources)
            if record.role == "input":
                self._inputs[_call(record)].append(place)
            elif record.parent is not None:
                self._inner[record.parent, record.rank].append(place)

    def of(self, place: int) -> list[int]:
        """Return what a tensor is computed from: its sources, else its call's inputs and the last result inside it."""
        record = self._records[place]
        if record.role in _WEIGHTS:
            return []
        if record.sources:
            known = [self._by_seq.get((record.rank, seq), place) for seq in record.sources]
            return [fed for fed in known if fed < place and self._records[fed].role not in _WEIGHTS]
        if record.role == "input":
            return []
        inputs = [fed for fed in self._inputs[_call(record)] if fed < place]
        inner = self._inner[record.name, record.rank]
        last = bisect_left(inner, place) - 1
        inside = last >= 0 and inner[last] > min(inputs, default=place)
        return [*inputs, inner[last]] if inside else inputs

    def weights(self, name: str) -> list[str]:
        return self._weights.get(name, [])


def _call(record: Record) -> Key:
    return Key(record.name, "output", "0", record.call, record.step, record.rank)
