"""Operands that the candidate's graph quantises and makes real again before it computes with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation
from firstdiff.diagnose.rows import as_recorded
from firstdiff.dtypes import doubles
from firstdiff.errors import UsageError
from firstdiff.ops import NotReplayable, plans
from firstdiff.trace import Tensor

_BACK_TO_REAL = "DequantizeLinear"
# a weight is at most half a step from what it was; a scale is itself a rounded number
_HALF_A_STEP = 0.51
_IMPLIES = ("weights.differ", "dtype.bf16", "dtype.fp16", "values.clipped", "offset.channel", "scale.channel")


def reads_quantised(case: Case) -> bool:
    """True for a node that reads values which went through integers, as the candidate recorded it."""
    return any(tensor.record.op == _BACK_TO_REAL for tensor in case.candidate_operands.values())


def quantised_operands(case: Case) -> Iterator[Explanation]:
    """Compute the candidate's node on what it read: that must give what it gave, for quantising to be the cause."""
    quantised = {slot: item for slot, item in case.candidate_operands.items() if item.record.op == _BACK_TO_REAL}
    honest = all(_is_near(case, slot, item) for slot, item in quantised.items())
    predicted = _computed(case) if quantised and honest else None
    if predicted is None or predicted.shape != case.candidate.shape:
        return
    fit = case.fit(predicted)
    bits = 4 if all("int4" in _type_of(case, item) for item in quantised.values()) else 8
    names = " and ".join(item.name for item in quantised.values())
    yield Explanation(
        cause=f"dtype.int{bits}",
        fit=fit,
        evidence=f"computed from {names}, which were quantised to {bits} bits, {case.falls_to(fit)}",
        fix=f"leave the operands of {case.name} unquantised, or judge the outputs by their SQNR",
        implies=_IMPLIES,
        predicted=predicted,
    )


def _computed(case: Case) -> np.ndarray | None:
    tensor = case.row.candidate
    arrays: dict[str, Any] = {slot: as_recorded(item) for slot, item in case.candidate_operands.items()}
    if tensor is None or any(array is None for array in arrays.values()):
        return None
    record = tensor.record
    found = plans(record.op or "", record.attrs, arrays, {}, name=record.name)
    if isinstance(found, NotReplayable) or not found:
        return None
    try:
        whole = found[0].run()["0"]
        return doubles(whole[case.part])
    except (ValueError, IndexError, UsageError, KeyError):
        return None


def _is_near(case: Case, slot: str, item: Tensor) -> bool:
    """False for a quantised weight that is further from the reference's than one grid leaves: another weight."""
    held, scale = case.sources_of(item)[:2] if len(item.record.sources) > 1 else (None, None)
    if held is None or scale is None or held.key.role != "param":
        return True  # a value that the candidate computed: the node that quantises it is a row of its own
    ours, theirs, step = case.reference_operand(slot), as_recorded(item), as_recorded(scale)
    if ours is None or theirs is None or step is None or ours.shape != theirs.shape:
        return True
    apart = float(np.abs(doubles(ours) - doubles(theirs)).max(initial=0.0))
    return apart <= _HALF_A_STEP * float(doubles(step).max(initial=0.0))


def _type_of(case: Case, item: Tensor) -> str:
    """The type of the integers that a value was made of."""
    source = next(iter(case.sources_of(item)), None)
    return source.values().dtype.name if source is not None and source.source is not None else ""
