"""Find omissions that rule out a match, whatever the user allows to be missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.locate import MeasuredPair
from firstdiff.measure import measure_statistics
from firstdiff.pairing import PairingResult
from firstdiff.pairing.fingerprints import first_copies
from firstdiff.pairing.strategy import Side
from firstdiff.schema import Note
from firstdiff.trace import Source, Tensor, Trace

SideName = Literal["reference", "candidate"]
_SIDES: tuple[SideName, SideName] = ("reference", "candidate")
_MOST_NAMED = 3
_JOINS = frozenset({"cat", "concat", "concatenate", "stack", "hstack", "vstack"})


def omissions(paired: PairingResult, rows: Sequence[MeasuredPair]) -> tuple[Note, ...]:
    """Say why rows that all match are no match: something that decides was left without a partner.

    Where every tensor of both sides has a partner nothing is left out.
    """
    lone = [row for row in rows if row.status in ("missing", "extra", "rewritten") and not row.is_evidence]
    if not lone:
        return ()
    said = [*_last_values(paired, rows), *_with_nan(lone), *_nothing_telling(rows), *_by_luck(paired)]
    return tuple(Note("omission", None, text) for text in said)


def _last_values(paired: PairingResult, rows: Sequence[MeasuredPair]) -> Iterator[str]:
    """A run that stopped early, and one whose last values fit nothing, prove nothing."""
    for side, trace in zip(_SIDES, (paired.reference, paired.candidate), strict=True):
        last = last_values(trace)
        if last is None:
            continue
        measured = _measured(paired, rows, side)
        if not _is_covered(trace, last, measured):
            key = trace.tensors[last].key
            yield f"the last values of the {side} ({key}) were not compared, so this is no match"


def _measured(paired: PairingResult, rows: Sequence[MeasuredPair], side: SideName) -> set[int]:
    """Return the places of the tensors of one side that were measured."""
    keys = {row.key for row in rows if row.metrics is not None}
    tensors = paired.reference.tensors
    return {
        place
        for match in paired.pairs
        if str(tensors[match.reference[0]].key) in keys
        for place in getattr(match, side)
    }


def last_values(trace: Trace) -> int | None:
    """Return the place of what a run computed last; None where the order of execution is not known.

    What a model gives back are often tensors that it made long before, such as a cache: the one made last counts.
    """
    if trace.order == "natural":
        return None
    places = [place for place, tensor in enumerate(trace) if _is_result(tensor)]
    if not places:
        return None
    last = trace.tensors[places[-1]]
    call = [place for place in places if _same_call(trace.tensors[place], last)]
    if len(call) == 1:
        return places[-1]
    earlier = [place for place in places if place not in set(call)]
    return max(call, key=lambda place: (_made_at(trace, place, earlier), -place))


def _made_at(trace: Trace, place: int, earlier: Sequence[int]) -> int:
    """Return where the values of a tensor appear first."""
    source = trace.tensors[place].source
    return next((at for at in earlier if _same(source, trace.tensors[at].source)), place)


def _is_result(tensor: Tensor) -> bool:
    return tensor.key.role == "output" and tensor.source is not None and tensor.source.size > 0


def _same_call(one: Tensor, other: Tensor) -> bool:
    mine, yours = one.key, other.key
    return (mine.name, mine.call, mine.step, mine.rank) == (yours.name, yours.call, yours.step, yours.rank)


def _is_covered(trace: Trace, last: int, measured: set[int]) -> bool:
    """True if the values were compared, under whatever name the side has them."""
    if last in measured:
        return True
    return _is_held(trace, last, measured) or _is_joined(trace, last, measured)


def _is_held(trace: Trace, wanted: int, measured: set[int]) -> bool:
    values = trace.tensors[wanted].source
    return any(_same(values, trace.tensors[place].source) for place in sorted(measured, reverse=True))


def _is_joined(trace: Trace, last: int, measured: set[int]) -> bool:
    """True if the last values are several that were compared, joined into one tensor."""
    values = trace.tensors[last].source
    made = [tensor for tensor in trace if tensor.record.op in _JOINS and _same(values, tensor.source)]
    if not made:
        return False
    parts = [place for place, tensor in enumerate(trace) if tensor.key.role == "input" and _same_call(tensor, made[0])]
    return bool(parts) and all(place in measured or _is_held(trace, place, measured) for place in parts)


def _same(one: Source | None, other: Source | None) -> bool:
    """True if two tensors of one run hold the same numbers in the same order."""
    if one is None or other is None or one.size != other.size or one.dtype != other.dtype:
        return False
    try:
        return bool(np.array_equal(one.window(0, one.size), other.window(0, other.size)))
    except ReadError:
        return False


def _with_nan(lone: Sequence[MeasuredPair]) -> Iterator[str]:
    found: dict[str, list[str]] = {}
    for row in lone:
        tensor = row.reference or row.candidate
        if tensor is not None and _holds_nan(tensor):
            found.setdefault("reference" if row.reference else "candidate", []).append(row.key)
    for side, keys in found.items():
        more = f" and {len(keys) - _MOST_NAMED:,} more" if len(keys) > _MOST_NAMED else ""
        hold = "holds" if len(keys) == 1 else "hold"
        yield f"{', '.join(keys[:_MOST_NAMED])}{more}, which only the {side} has, {hold} NaN"


def _holds_nan(tensor: Tensor) -> bool:
    if tensor.source is None or tensor.source.dtype.kind in "iub":
        return False
    try:
        return measure_statistics(tensor.source).nan > 0
    except ReadError:
        return False


def _by_luck(paired: PairingResult) -> Iterator[str]:
    """Of two tensors of one side that hold the same values one was paired for its values, and the other left out."""
    by_values = [match for match in paired.pairs if match.pairing.method == "content"]
    places = [match.reference[0] for match in by_values], [match.candidate[0] for match in by_values]
    lone = [one.index for one in paired.missing], [one.index for one in paired.extra]
    traces = paired.reference, paired.candidate
    for number, side in enumerate(_SIDES):
        twins = _twins(paired, number, places[number], lone[number])
        for place, partner in zip(places[number], places[1 - number], strict=True):
            if place in twins:
                own, other = traces[number].tensors, traces[1 - number].tensors
                both = f"{own[place].key} and {own[twins[place]].key} of the {side} hold the same values"
                yield f"{both}: {other[partner].key} may be either"


def _twins(paired: PairingResult, number: int, places: Sequence[int], lone: Sequence[int]) -> dict[int, int]:
    """Return which of some tensors of a side hold the values of a lone one; copies in a captured run are one tensor."""
    trace = (paired.reference, paired.candidate)[number]
    if paired.fingerprints is None or any(tensor.record.sources for tensor in trace):
        return {}
    first = first_copies(Side.of(trace), paired.fingerprints[number], [*places, *lone])
    lone_of = {first[place]: place for place in lone if place in first}
    return {place: lone_of[first[place]] for place in places if first.get(place) in lone_of}


def _nothing_telling(rows: Sequence[MeasuredPair]) -> Iterator[str]:
    """Empty tensors and constants agree in any two runs."""
    measured = [row for row in rows if row.metrics is not None]
    if measured and not any(_is_telling(row) for row in measured):
        yield "only empty tensors and constants were compared, which tell nothing about the runs"


def _is_telling(row: MeasuredPair) -> bool:
    statistics = row.reference_info.statistics if row.reference_info else None
    return statistics is not None and (statistics.min != statistics.max or bool(statistics.nan or statistics.inf))
