"""The first NaN or Inf: which tensor, which operation, which element, and what led there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from firstdiff import dtypes
from firstdiff.errors import ReadError
from firstdiff.locate.graph import RowGraph
from firstdiff.locate.nonfinite_causes import At, cause
from firstdiff.locate.operands import Values
from firstdiff.locate.row import MeasuredPair
from firstdiff.measure.numerics import to_numbers
from firstdiff.schema import Note
from firstdiff.trace import Source

_WINDOW = 1 << 20
_MASKS = frozenset({"masked_fill", "where", "full", "full_like", "tril", "triu"})


@dataclass(frozen=True, slots=True)
class _Found:
    """The first element that is not finite, and what it is on the side that has it."""

    index: tuple[int, ...]
    value: float | complex


def nonfinite_notes(graph: RowGraph, values: Values) -> list[Note]:
    """Describe the first NaN or Inf of the candidate, and of the reference if it has NaN itself."""
    first = _first(graph, _only_candidate)
    if first and graph.rows[first[0]].op in _MASKS:  # masks are meant to be infinite; what they lead to is not
        first = _first(graph, _more_nan)
    notes = [Note("other", graph.rows[place].key, _story(graph, values, place)) for place in first]
    for place in _first(graph, _nan_in_reference):
        key = graph.rows[place].key
        text = f"The reference itself has NaN, first in {key}: what comes after it proves nothing"
        notes.append(Note("other", key, text))
    return notes


def _first(graph: RowGraph, has: Callable[[MeasuredPair], bool]) -> list[int]:
    for place, row in enumerate(graph.rows):
        fed = graph.compared[place].rows
        if row.compared and not row.is_evidence and has(row) and not any(has(graph.rows[at]) for at in fed):
            return [place]
    return []


def _only_candidate(row: MeasuredPair) -> bool:
    metrics = row.metrics
    if metrics is None:
        return False
    return metrics.nan_candidate > metrics.nan_reference or metrics.inf_candidate > metrics.inf_reference


def _more_nan(row: MeasuredPair) -> bool:
    metrics = row.metrics
    return metrics is not None and metrics.nan_candidate > metrics.nan_reference


def _nan_in_reference(row: MeasuredPair) -> bool:
    return row.metrics is not None and row.metrics.nan_reference > 0


def _story(graph: RowGraph, values: Values, place: int) -> str:
    row = graph.rows[place]
    fed = [graph.rows[at] for at in graph.compared[place].rows]
    what = f"{row.key} ({row.op})" if row.op else row.key
    found = _locate(row.sources) if row.sources else None
    begun = f"The candidate's first NaN or Inf is in {what}"
    if found is None:
        return begun
    begun += f", {_name(found.value)} at index {list(found.index)}"
    if fed and not graph.compared[place].guessed and not any(map(_only_candidate, fed)):
        begun += f"; what goes into it ({fed[-1].key}) has none that the reference has not"
    try:
        why = cause(_scene(graph, values, place, found))
    except ReadError:
        why = None
    if why is not None:
        return f"{begun}: {why}"
    inputs = values.slots(place) if row.role != "input" else {}
    return begun if inputs else f"{begun}; record inputs too, to know what led there"


def _locate(sources: tuple[Source, Source]) -> _Found | None:
    """The first element that is finite, or something else, in the reference and NaN or Inf in the candidate."""
    reference, candidate = sources
    for start in range(0, reference.size, _WINDOW):
        stop = min(start + _WINDOW, reference.size)
        theirs = to_numbers(candidate.window(start, stop))
        ours = to_numbers(reference.window(start, stop))
        strange = ~np.isfinite(theirs) & (np.isfinite(ours) | (np.isnan(theirs) & ~np.isnan(ours)))
        if strange.any():
            at = int(np.argmax(strange))
            index = np.unravel_index(start + at, reference.shape) if reference.shape else ()
            return _Found(tuple(int(number) for number in index), theirs[at])
    return None


def _name(value: float | complex) -> str:
    if np.isnan(value):
        return "NaN"
    return "-Inf" if np.real(value) < 0 else "Inf"


def _scene(graph: RowGraph, values: Values, place: int, found: _Found) -> At:
    row = graph.rows[place]
    own = values.own(place)
    slots = values.slots(place) if row.role != "input" else {}
    inputs = {slot: given for slot, at in slots.items() if (given := values.candidate(at)) is not None}
    dtype = row.candidate.source.dtype if row.candidate and row.candidate.source else None
    expected = None
    if own is not None and row.reference is not None:
        expected = complex(dtypes.doubles(row.reference.values().view()[found.index]))
    attrs = row.record.attrs if row.record else {}
    return At(row.op or "", attrs, inputs, found.index, own, dtype, expected)
