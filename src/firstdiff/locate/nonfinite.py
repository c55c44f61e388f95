"""Find the first NaN or Inf: tensor, operation, element and cause."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log
from typing import Any

import ml_dtypes
import numpy as np

from firstdiff import dtypes
from firstdiff.errors import ReadError
from firstdiff.locate.graph import RowGraph
from firstdiff.locate.operands import Values
from firstdiff.locate.row import MeasuredPair
from firstdiff.measure.numerics import to_numbers
from firstdiff.schema import Note
from firstdiff.trace import Source


@dataclass(frozen=True, slots=True)
class At:
    """An operation at the element where it went wrong, on the candidate's side.

    inputs: by slot
    output: its values; None where they are in another layout
    dtype: the candidate's type
    expected: what the reference has there
    """

    op: str
    attrs: Mapping[str, Any]
    inputs: Mapping[str, np.ndarray]
    index: tuple[int, ...]
    output: np.ndarray | None
    dtype: np.dtype | None
    expected: complex | None

    def operand(self, *slots: str) -> float | None:
        """The element of an input, or the plain number, that this element of an operation was computed from."""
        values = next((self.inputs[slot] for slot in slots if slot in self.inputs), None)
        told = next((self.attrs[slot] for slot in slots if isinstance(self.attrs.get(slot), int | float)), None)
        if values is None or self.output is None:
            return None if told is None else float(told)
        try:
            same = np.broadcast_to(values, self.output.shape)
        except ValueError:
            return None
        if same.dtype.kind == "c":
            return None
        return float(dtypes.doubles(np.asarray(same[self.index]).reshape(1))[0])

    @property
    def highest(self) -> float | None:
        """The largest number of the type; None for whole numbers."""
        if self.dtype is None or dtypes.kind_of(self.dtype) != "float":
            return None
        return float(ml_dtypes.finfo(self.dtype).max)


@np.errstate(all="ignore")
def cause(at: At) -> str | None:
    """Describe the cause of a NaN or Inf; None if it is not a known one."""
    for test in (_logarithm, _division, _root, _exponential, _masked_row, _infinities, _range):
        found = test(at)
        if found is not None:
            return found
    return None


def _logarithm(at: At) -> str | None:
    if at.op not in ("log", "log2", "log10", "log1p", "Log"):
        return None
    value = at.operand("input", "0", "x")
    edge = -1.0 if at.op == "log1p" else 0.0
    if value is None or value > edge:
        return None
    return f"the logarithm of {'zero' if value == edge == 0 else f'{value:.6g}'}"


def _division(at: At) -> str | None:
    if at.op in ("reciprocal", "rsqrt"):
        value = at.operand("input", "0", "x")
        return "a division by zero" if value == 0 else None
    if at.op not in ("div", "Div", "truediv", "floor_divide", "remainder"):
        return None
    above, below = at.operand("input", "0"), at.operand("other", "1")
    if below != 0:
        return None
    return "zero divided by zero" if above == 0 else "a division by zero"


def _root(at: At) -> str | None:
    value = at.operand("input", "0", "x") if at.op in ("sqrt", "rsqrt", "Sqrt") else None
    return f"the square root of {value:.6g}, a negative number" if value is not None and value < 0 else None


def _exponential(at: At) -> str | None:
    value = at.operand("input", "0", "x") if at.op in ("exp", "Exp", "expm1") else None
    if value is None or at.highest is None or value <= log(at.highest):
        return None
    return f"exp({value:.6g}) is beyond the range of {_dtype_name(at)}"


def _masked_row(at: At) -> str | None:
    """Softmax of nothing but -Inf is 0 / 0."""
    name = at.op.lower().replace("_", "")
    if name in ("softmax", "logsoftmax"):
        scores = next(iter(at.inputs.values()), None)
        dim = at.attrs.get("dim", at.attrs.get("axis", -1))
        if scores is None or scores.shape != getattr(at.output, "shape", None) or not isinstance(dim, int):
            return None
        row = dtypes.doubles(np.moveaxis(np.asarray(scores), dim, -1)[_without(at.index, dim)])
        return "every score of this row is masked (-Inf): softmax of a fully masked row" if _all_masked(row) else None
    mask = at.inputs.get("attn_mask") if name == "scaleddotproductattention" else None
    if mask is None or at.output is None:
        return None
    seen = np.broadcast_to(mask, (*at.output.shape[:-1], mask.shape[-1]))[at.index[:-1]]
    hidden = not seen.any() if seen.dtype == np.bool_ else _all_masked(dtypes.doubles(seen))
    return "the mask hides every key from this query: a fully masked row" if hidden else None


def _infinities(at: At) -> str | None:
    """Inf - Inf and 0 * Inf: an input that is rightly infinite, such as a mask, used where it must not be."""
    for slot, values in at.inputs.items():
        if (
            values.dtype.kind != "c"
            and dtypes.kind_of(values.dtype) == "float"
            and np.isinf(dtypes.doubles(values)).any()
        ):
            return f"input {slot} has infinities, which the operation turns into this"
    return None


def _range(at: At) -> str | None:
    highest = at.highest
    if highest is None:
        return None
    if at.expected is not None and np.isfinite(at.expected) and abs(at.expected) > highest:
        return f"the reference has {at.expected.real:.6g} there, beyond the {highest:.6g} that {_dtype_name(at)} holds"
    largest = max((_largest(values) for values in at.inputs.values()), default=0.0)
    if largest > highest / 16:
        return f"its inputs reach {largest:.6g}, near the {highest:.6g} that {_dtype_name(at)} holds: it overflows"
    if largest * largest > highest:
        return (
            f"its inputs reach {largest:.6g}: products of such numbers are beyond the {highest:.6g} that "
            f"{_dtype_name(at)} holds"
        )
    return None


def _largest(values: np.ndarray) -> float:
    if values.dtype.kind == "c" or values.size == 0 or dtypes.kind_of(values.dtype) != "float":
        return 0.0
    numbers = np.abs(dtypes.doubles(values))
    return float(np.max(numbers[np.isfinite(numbers)], initial=0.0))


def _all_masked(row: np.ndarray) -> bool:
    return bool(row.size) and bool(np.all(np.isneginf(row)))


def _without(index: tuple[int, ...], dim: int) -> tuple[int, ...]:
    dim %= len(index)
    return index[:dim] + index[dim + 1 :]


def _dtype_name(at: At) -> str:
    return at.dtype.name if at.dtype is not None else "its type"


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
        text = f"The reference itself has NaN, first in {key}: rows that are computed from it cannot be judged"
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
        begun += f"; its input ({fed[-1].key}) has none that the reference lacks"
    try:
        why = cause(_scene(graph, values, place, found))
    except ReadError:
        why = None
    if why is not None:
        return f"{begun}: {why}"
    inputs = values.slots(place) if row.role != "input" else {}
    return begun if inputs else f"{begun}; record inputs too, to find what led to it"


def _locate(sources: tuple[Source, Source]) -> _Found | None:
    """The first element that is finite, or something else, in the reference and NaN or Inf in the candidate."""
    reference, candidate = sources
    for start in range(0, reference.size, _WINDOW):
        stop = min(start + _WINDOW, reference.size)
        cand = to_numbers(candidate.window(start, stop))
        ref = to_numbers(reference.window(start, stop))
        strange = ~np.isfinite(cand) & (np.isfinite(ref) | (np.isnan(cand) & ~np.isnan(ref)))
        if strange.any():
            at = int(np.argmax(strange))
            index = np.unravel_index(start + at, reference.shape) if reference.shape else ()
            return _Found(tuple(int(number) for number in index), cand[at])
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
