"""Set apart what one side could not record: weights it left out, and tensors inside a compiled or exported model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from firstdiff.locate import MeasuredPair
from firstdiff.schema import Note
from firstdiff.trace import Trace

SideName = Literal["reference", "candidate"]
_SIDES: tuple[SideName, SideName] = ("reference", "candidate")
_LONE = ("missing", "extra")
_CLOSED = {"compiled": "compiled", "exported": "exported as one graph"}
_INPUTS_AND_OUTPUTS = ("input", "output")


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """The rows of a comparison, with those set apart that are inside of what one side ran as a whole."""

    rows: list[MeasuredPair]
    notes: tuple[Note, ...] = ()


def set_apart_unrecorded_weights(traces: tuple[Trace, Trace], rows: Sequence[MeasuredPair]) -> list[MeasuredPair]:
    """Give weights of one side the status `rewritten` that the other has, too, but did not record.

    A model in fp32 may be too large to record its weights where the same in bf16 is not.
    """
    left_out = [frozenset(map(str, trace.header.get("left_out") or ())) for trace in traces]
    if not any(left_out):
        return list(rows)
    return [_without_weights(row, left_out) for row in rows]


def _without_weights(row: MeasuredPair, left_out: Sequence[frozenset[str]]) -> MeasuredPair:
    if not row.is_evidence or row.status not in _LONE:
        return row
    other = 1 - _LONE.index(row.status)
    if row.name not in left_out[other]:
        return row
    return replace(row, status="rewritten", reason=f"not compared: the {_SIDES[other]} did not record it")


def set_apart_closed(traces: tuple[Trace, Trace], rows: Sequence[MeasuredPair]) -> Unrecorded:
    """Set tensors apart that are inside a module which the other side compiled or exported, and which agrees.

    Such a module takes no hooks. All that goes into it and comes out of it must have been compared and match.
    """
    closed = [_closed_modules(trace) for trace in traces]
    if not any(closed):
        return Unrecorded(list(rows))
    parents = [
        {tensor.record.name: tensor.record.parent for tensor in trace if tensor.record.parent} for trace in traces
    ]
    agree = {name for modules in closed for name in modules if _agrees(name, rows)}
    found, counts = list(rows), dict[tuple[SideName, str], int]()
    for row in rows:
        if row.status not in _LONE or row.role not in _INPUTS_AND_OUTPUTS:
            continue
        own = _LONE.index(row.status)
        module = next((name for name in _around(row.name, parents[own]) if name in closed[1 - own]), None)
        if module is None or module not in agree:
            continue
        side = _SIDES[1 - own]
        counts[side, module] = counts.get((side, module), 0) + 1
        reason = f"not compared: in the {side} {module} is {closed[1 - own][module]}, and agrees as a whole"
        found[row.index] = replace(row, status="rewritten", reason=reason)
    return Unrecorded(found, tuple(_notes(counts, closed)))


def _closed_modules(trace: Trace) -> dict[str, str]:
    """Return how each module was run of which only the outside could be recorded."""
    return {
        tensor.record.name: word
        for tensor in trace
        for attr, word in _CLOSED.items()
        if tensor.record.role == "output" and tensor.record.attrs.get(attr) is True
    }


def _around(name: str, parents: Mapping[str, str | None]) -> Iterator[str]:
    """Yield the modules around a tensor, from the inside."""
    seen = {name}
    parent = parents.get(name)
    while parent is not None and parent not in seen:
        yield parent
        seen.add(parent)
        parent = parents.get(parent)


def _agrees(module: str, rows: Sequence[MeasuredPair]) -> bool:
    slots = [row for row in rows if row.name == module and row.role in _INPUTS_AND_OUTPUTS]
    outputs = (row for row in slots if row.role == "output")
    return all(row.status in ("match", "rewritten") for row in slots) and any(row.status == "match" for row in outputs)


def _notes(counts: Mapping[tuple[SideName, str], int], closed: Sequence[Mapping[str, str]]) -> Iterator[Note]:
    for (side, module), count in counts.items():
        what = "1 tensor inside it was" if count == 1 else f"{count:,} tensors inside it were"
        how = closed[_SIDES.index(side)][module]
        yield Note("other", None, f"In the {side} {module} is {how}: it was compared as a whole; {what} not recorded")
