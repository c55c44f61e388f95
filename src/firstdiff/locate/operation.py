"""The verdict on one operation of the candidate, by what it gives when it is computed again from its own inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from firstdiff import dtypes
from firstdiff.judge.alone import parts_alone, parts_of_steps
from firstdiff.judge.special_values import filler_places
from firstdiff.locate.conditioning import PRODUCTS, is_within_a_step, is_within_its_steps, is_within_its_sums
from firstdiff.schema import FailedPart, Isolated
from firstdiff.trace import Record

if TYPE_CHECKING:  # the operators are many, and most comparisons need none of them
    from firstdiff.ops import Plan
    from firstdiff.ops.plan import Function

_LOOK_INSIDE = "capture with level='op' to record what happens inside it"
# runs in the reference's own runtime and type: that it leaves nothing over there says nothing about other kernels
BY_ITSELF = "onnx_node"
# operators that round more than their result, so that less than their own limit tells nothing
_OF_SEVERAL = ("gated", "attention", "recurrent", "rotary", "spectral", "mel")
_OF_EACH_ELEMENT = ("activations", "arithmetic", "elementwise")
_ARITHMETIC = ("add", "sub", "mul", "div")


@dataclass(frozen=True, slots=True)
class Limit:
    """The largest residual that is rounding, in eps of a type."""

    dtype: np.dtype
    value: float


def judged_output(plan: Plan, record: Record, own: np.ndarray, limit: Limit, *, once: bool) -> Isolated:
    """Judge the candidate's output by what a plan on its inputs gives.

    record: the reference's, of this output
    once: only the result was rounded
    """
    from firstdiff.ops import residual, within_half_steps
    from firstdiff.ops.residuals import held_as_it_goes, limit_of_steps

    try:
        computed = plan.run().get(record.slot)
    except ValueError as error:
        return unknown(f"the candidate's inputs do not fit the operation: {error}", _LOOK_INSIDE)
    if computed is None:
        return unknown(f"output {record.slot} cannot be computed again", _LOOK_INSIDE)
    computed = _where_known(plan, computed, own)
    own = _with_fillers_of(computed, within_half_steps(record.op or "", own, computed))
    held = held_as_it_goes(plan, record.slot, limit.dtype)
    if held is not None:
        limit = replace(limit, value=max(limit.value, limit_of_steps(plan, record.slot, computed, limit.dtype)))
    text = f"computed again from the candidate's own inputs, {plan.operator} gives something else"
    stepped = is_within_a_step(plan, record.slot, computed, own)
    judged = judgement(0.0 if stepped else residual(own, computed, dtype=limit.dtype.name), limit, text)
    if not judged.residual or not isfinite(judged.residual):
        return judged
    if held is None:
        parts = _parts(plan, record.slot, computed, own, limit.dtype, once=once)
    else:
        parts = parts_of_steps(computed, held, own, limit.dtype)
    wrong = judged.status == "mismatch" or bool(parts)
    excused = wrong and (
        (once and is_within_its_sums(plan, record.slot, computed, own, parts))
        or (plan.operator == BY_ITSELF and is_within_its_steps(plan, record.slot, computed, own))
    )
    if excused:
        return Isolated(status="match", residual=judged.residual, limit=judged.limit)
    if not wrong:
        return judged
    if _is_autocast(plan, own):
        cast = judged_output(replace(plan, rounding=own.dtype.name), record, own, limit, once=once)
        if cast.status == "match":
            return cast
    return (
        judged if judged.status == "mismatch" else replace(judged, status="mismatch", reason=f"{text}: {parts[0].text}")
    )


def _where_known(plan: Plan, computed: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return the candidate's own numbers where its inputs give none: storing those in less range made infinities."""
    arrays = [array for array in plan.arrays.values() if isinstance(array, np.ndarray) and array.dtype.kind == "f"]
    if computed.shape != own.shape or not any(np.isinf(array).any() for array in arrays):
        return computed
    return np.where(np.isfinite(own) & ~np.isfinite(computed), own, computed)


@np.errstate(over="ignore")
def _with_fillers_of(computed: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return a result with what was computed wherever a mask hides both, whatever number each mask has."""
    places = filler_places(computed, own) if computed.shape == own.shape else None
    if places is None or not places.agree:
        return own
    return np.where(places.hidden, computed.astype(own.dtype), own)


def _parts(
    plan: Plan, slot: str, computed: np.ndarray, own: np.ndarray, dtype: np.dtype, *, once: bool
) -> tuple[FailedPart, ...]:
    """Parts of the difference that rounding does not explain, whichever way single numbers are rounded."""
    each = is_of_each_element(plan.function)
    arithmetic = each and plan.operator in _ARITHMETIC
    parts = parts_alone(computed, own, dtype, each_element=each, arithmetic=arithmetic, once=once)
    numbers = _with_rounded_numbers(plan, own.dtype) if parts and each else None
    if numbers is None:
        return parts
    return parts_alone(numbers.run()[slot], own, dtype, each_element=each, arithmetic=arithmetic, once=once)


def is_recurrent(op: str | None) -> bool:
    """True for layers that go through time, and their cells."""
    return op is not None and op.removesuffix("Cell") in ("LSTM", "GRU", "RNN")


def rounds_once(function: Function) -> bool:
    """True for an operator that rounds its result alone."""
    return function.__module__.rpartition(".")[2] not in _OF_SEVERAL and function.__name__ != BY_ITSELF


def is_of_each_element(function: Function) -> bool:
    """True for an operator that takes each element alone."""
    return function.__module__.rpartition(".")[2] in _OF_EACH_ELEMENT


def _with_rounded_numbers(plan: Plan, dtype: np.dtype) -> Plan | None:
    """Return a plan with its single numbers in a tensor's type, as some kernels take them; None where it has none."""
    numbers = {
        name: np.asarray(value, np.float64).astype(dtype)
        for name, value in plan.arrays.items()
        if value is not None and not isinstance(value, tuple) and np.ndim(value) == 0
    }
    return plan.on(**numbers) if numbers else None


def _is_autocast(plan: Plan, own: np.ndarray) -> bool:
    """Return whether a product that gives a half type may have rounded its inputs to it first."""
    if plan.operator not in PRODUCTS or own.dtype.itemsize != 2 or plan.rounding is not None:
        return False
    arrays = [array for array in plan.arrays.values() if isinstance(array, np.ndarray)]
    return any(dtypes.kind_of(array.dtype) == "float" and array.dtype.itemsize > 2 for array in arrays)


def judgement(found: float, limit: Limit, text: str) -> Isolated:
    if found <= limit.value:
        return Isolated(status="match", residual=found, limit=limit.value)
    reason = f"{text} ({found:.3g} eps of {limit.dtype.name} off; up to {limit.value:.3g} is rounding)"
    return Isolated(status="mismatch", residual=found, limit=limit.value, reason=reason)


def unknown(reason: str, record_next: str, *, lacks_params: bool = False) -> Isolated:
    return Isolated(status="unknown", reason=reason, record_next=record_next, lacks_params=lacks_params)
