"""Explain nodes whose operands were quantised: made real again before the node, or multiplied as whole numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
_QUANTISES = ("QuantizeLinear", "DynamicQuantizeLinear")
_INTEGERS = ("int8", "uint8", "int4", "uint4")
_LONGEST = 16  # values between a node and its operands: a product of whole numbers takes four nodes
# a weight is at most half a step from what it was; a scale is itself a rounded number
_HALF_A_STEP = 0.51
_IMPLIES = ("weights.differ", "dtype.bf16", "dtype.fp16", "values.clipped", "offset.channel", "scale.channel")


def reads_quantised(case: Case) -> bool:
    """True for a node that reads values which went through integers, as the candidate recorded it."""
    return any(tensor.record.op == _BACK_TO_REAL for tensor in case.candidate_operands.values())


def computes_in_integers(case: Case) -> bool:
    """True for a value that the candidate computed from whole numbers of 8 bits or fewer."""
    return any(_is_integer(tensor) for tensor in _leading_to(case))


def quantised_operands(case: Case) -> Iterator[Explanation]:
    """Explain a node by its quantised operands, if computing it on them gives the candidate's output."""
    quantised = {slot: item for slot, item in case.candidate_operands.items() if item.record.op == _BACK_TO_REAL}
    honest = all(_is_near(case, slot, item) for slot, item in quantised.items())
    tensor = case.row.candidate
    if not quantised or not honest or tensor is None:
        return
    arrays = {slot: as_recorded(item) for slot, item in case.candidate_operands.items()}
    bits = 4 if all("int4" in _integer_type(case, item) for item in quantised.values()) else 8
    yield from _explained(case, tensor, arrays, [item.name for item in quantised.values()], bits)


def integer_operands(case: Case) -> Iterator[Explanation]:
    """Explain a value by whole numbers, if the reference's node on what they stand for gives the candidate's value."""
    tensor, leading = case.row.reference, _leading_to(case)
    integers = [item for item in leading if _is_integer(item)]
    if tensor is None or not integers:
        return
    arrays: dict[str, np.ndarray | None] = {}
    used: list[Tensor] = []
    for slot in case.reference_operands:
        given = case.inputs.get(slot)
        own = given.candidate if given is not None and given.candidate is not None else case.reference_operand(slot)
        arrays[slot] = own
        stands = next(_standing_for(own, integers, leading), None) if own is not None else None
        if stands is not None:
            used.append(stands[0])
            arrays[slot] = stands[1]
    if used:
        bits = 4 if all("int4" in item.values().dtype.name for item in used) else 8
        yield from _explained(case, tensor, arrays, [item.name for item in used], bits)


def _explained(
    case: Case, tensor: Tensor, arrays: Mapping[str, np.ndarray | None], names: list[str], bits: int
) -> Iterator[Explanation]:
    predicted = _computed(case, tensor, arrays)
    if predicted is None or predicted.shape != case.candidate.shape:
        return
    fit = case.fit(predicted)
    were = "was" if len(names) == 1 else "were"
    yield Explanation(
        cause=f"dtype.int{bits}",
        fit=fit,
        evidence=f"computed from {' and '.join(names)}, which {were} quantised to {bits} bits, {case.falls_to(fit)}",
        fix=f"leave the operands of {case.name} unquantised, or judge the outputs by their SQNR",
        implies=_IMPLIES,
        predicted=predicted,
    )


def _computed(case: Case, tensor: Tensor, arrays: Mapping[str, np.ndarray | None]) -> np.ndarray | None:
    """Compute the node of a tensor on other operands."""
    given: dict[str, Any] = {slot: array for slot, array in arrays.items() if array is not None}
    record = tensor.record
    if len(given) < len(arrays):
        return None
    found = plans(record.op or "", record.attrs, given, {}, name=record.name)
    if isinstance(found, NotReplayable) or not found:
        return None
    try:
        whole = found[0].run()["0"]
        return doubles(whole[case.part])
    except (ValueError, IndexError, UsageError, KeyError):
        return None


def _leading_to(case: Case) -> list[Tensor]:
    """Return what a value of a graph was computed from, back to what has a partner, was quantised or is a weight."""
    tensor = case.row.candidate
    if tensor is None or "opset" not in tensor.record.attrs:
        return []
    found: dict[int, Tensor] = {}
    waiting = [tensor]
    while waiting and len(found) <= _LONGEST:
        for item in case.sources_of(waiting.pop()):
            seq = item.record.seq if item is not None else None
            if item is None or seq is None or seq in found:
                continue
            found[seq] = item
            ends = item.record.role != "output" or item.record.op in _QUANTISES or case.is_paired(item)
            if not ends:
                waiting.append(item)
    return list(found.values()) if not waiting else []


def _standing_for(
    own: np.ndarray, integers: list[Tensor], leading: list[Tensor]
) -> Iterator[tuple[Tensor, np.ndarray]]:
    """Give the whole numbers that are an operand but for half a step each, and the numbers they stand for."""
    shaped = [item for item in integers if item.values().shape == own.shape]
    for item in shaped:
        held = as_recorded(item)
        scales, zeros = _beside(item, leading)
        for scale in scales:
            for zero in zeros:
                if held is None or (step := _spread(scale, own.shape)) is None:
                    continue
                offset = _spread(zero, own.shape)
                if offset is None:
                    continue
                real = (doubles(held) - offset) * step
                if float((np.abs(real - doubles(own)) / step).max(initial=0.0)) <= _HALF_A_STEP:
                    yield item, real.astype(np.float32)


def _beside(item: Tensor, leading: list[Tensor]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the arrays that may be the scale and the zero point of whole numbers."""
    node = item.record.attrs.get("node") if item.record.role == "output" else None
    # the three results of a DynamicQuantizeLinear belong together; weights have theirs among the weights
    near = [
        other
        for other in leading
        if other is not item and (other.record.attrs.get("node") == node if node else other.record.role == "param")
    ]
    arrays = [array for other in near if (array := as_recorded(other)) is not None and array.ndim <= 1]
    scales = [array for array in arrays if array.dtype.kind == "f" and array.size and bool((array > 0).all())]
    zeros = [array for array in arrays if array.dtype == item.values().dtype]
    return scales, [*zeros, np.zeros((), np.int8)]


def _spread(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return a scale or zero point in the shape of what it belongs to: one for all, or one for each channel."""
    values = doubles(array)
    if values.size == 1:
        return values.reshape(())
    axis = next((axis for axis in (len(shape) - 1, 0) if axis >= 0 and shape[axis] == values.size), None)
    return None if axis is None else values.reshape([-1 if at == axis else 1 for at in range(len(shape))])


def _is_integer(tensor: Tensor) -> bool:
    return tensor.source is not None and tensor.values().dtype.name in _INTEGERS and bool(tensor.values().shape)


def _is_near(case: Case, slot: str, item: Tensor) -> bool:
    """False for a quantised weight further from the reference's than half a step: another weight."""
    held, scale = case.sources_of(item)[:2] if len(item.record.sources) > 1 else (None, None)
    if held is None or scale is None or held.key.role != "param":
        return True  # computed by the candidate: the node that quantises it is a row of its own
    reference, candidate, step = case.reference_operand(slot), as_recorded(item), as_recorded(scale)
    if reference is None or candidate is None or step is None or reference.shape != candidate.shape:
        return True
    apart = float(np.abs(doubles(reference) - doubles(candidate)).max(initial=0.0))
    return apart <= _HALF_A_STEP * float(doubles(step).max(initial=0.0))


def _integer_type(case: Case, item: Tensor) -> str:
    """Return the integer dtype that a value was dequantised from."""
    source = next(iter(case.sources_of(item)), None)
    return source.values().dtype.name if source is not None and source.source is not None else ""
