"""Replay a recorded operation in float64, by the table from operations to operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from firstdiff import dtypes
from firstdiff.errors import UsageError
from firstdiff.ops import (
    activations,
    arithmetic,
    attention,
    conv,
    gated,
    indexing,
    linear,
    norms,
    onnx_nodes,
    pooling,
    recurrent,
    reductions,
    rotary,
    shaping,
    spectral,
)
from firstdiff.ops.plan import Plan
from firstdiff.ops.recorded_call import Call, Row, UnrecordedError
from firstdiff.ops.residuals import fit_limit, limit_of_steps, recorded_type, residual, within_half_steps

# rounding of the result alone leaves 0.5; a plan below this need not be compared with others
_AS_GOOD_AS_EXACT = 2.0
_LOOK_INSIDE = "capture with level='op' to record what happens inside it"

# the first row that supports a call reads it
TABLE: tuple[Row, ...] = (
    *onnx_nodes.ROWS,
    *gated.ROWS,
    *linear.ROWS,
    *conv.ROWS,
    *indexing.EMBEDDING_ROWS,
    *norms.ROWS,
    *activations.ROWS,
    *attention.ROWS,
    *rotary.ROWS,
    *arithmetic.ROWS,
    *reductions.ROWS,
    *shaping.ROWS,
    *indexing.SELECTION_ROWS,
    *pooling.ROWS,
    *spectral.ROWS,
    *recurrent.ROWS,
)


@dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """The result of replaying an operation.

    outputs: by slot, float64
    settings: every setting it was computed with
    plan: the computation itself, to run with one thing changed
    residual: what it leaves over of the recorded outputs, where they were given
    """

    outputs: dict[str, np.ndarray]
    settings: dict[str, Any]
    plan: Plan
    residual: float | None = None


@dataclass(frozen=True, slots=True)
class NotReplayable:
    """The reason an operation cannot be computed again, and what to record to be able to.

    nearest: what computing it again gives, where that is not what was recorded
    """

    reason: str
    record_next: str
    lacks_params: bool = False
    nearest: Replayed | None = None


def replay(
    op: str,
    attrs: Mapping[str, Any],
    inputs: Mapping[str, np.ndarray],
    params: Mapping[str, np.ndarray],
    *,
    name: str | None = None,
    settled: Plan | None = None,
) -> Replayed | NotReplayable:
    """Compute a recorded operation again from what was recorded of it.

    >>> again = replay("ReLU", {}, {"0": np.array([-1.0, 2.0])}, {})
    >>> again.outputs["0"]
    array([0., 2.])

    Where the record leaves a choice, the likeliest is taken and `plan.assumed` names it; `reproduce` settles it.

    op: the class of the module or the name of the function, as recorded
    attrs: its recorded attributes
    inputs: by slot
    params: parameters and buffers, by the names the module itself has for them ("weight", "out_proj.bias")
    name: what to call the operation in reasons
    settled: a plan of the same operation on other inputs, whose function and settings are taken over
    """
    label = name or f"this {op}"
    found = plans(op, attrs, inputs, params, name=name)
    if isinstance(found, NotReplayable):
        return found
    try:
        return _run(found[0] if settled is None else _as_settled(found, settled))
    except ValueError as error:
        return _unfit(label, error)


def reproduce(
    op: str,
    attrs: Mapping[str, Any],
    inputs: Mapping[str, np.ndarray],
    params: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    *,
    name: str | None = None,
) -> Replayed | NotReplayable:
    """Replay an operation that must give the recorded outputs again, with its residual.

    Of several ways to read the record the one that fits is taken, an earlier one unless a later is clearly better; if
    none fits, the operation is not what it looks like.

    expected: the recorded outputs by slot; those that the replay has no value for are left out
    """
    call = Call(op, attrs, inputs, params, name or f"this {op}")
    read = _read(call, TABLE)
    if isinstance(read, NotReplayable):
        return read
    row, found = read
    best = _Tried(None, False)
    for plan in found:
        tried = _try(plan, op, expected, attrs.get("dtype_was"))
        if tried.fits and (row.costly or tried.left_over <= _AS_GOOD_AS_EXACT):
            return tried.answer(call)
        if tried.better_than(best):
            best = tried
    return best.answer(call)


def plans(
    op: str,
    attrs: Mapping[str, Any],
    inputs: Mapping[str, np.ndarray],
    params: Mapping[str, np.ndarray],
    *,
    name: str | None = None,
    table: Sequence[Row] = TABLE,
) -> tuple[Plan, ...] | NotReplayable:
    """Return every reading of a recorded operation, the likeliest first; the arguments are those of `replay`."""
    read = _read(Call(op, attrs, inputs, params, name or f"this {op}"), table)
    return read if isinstance(read, NotReplayable) else read[1]


def _read(call: Call, table: Sequence[Row]) -> tuple[Row, tuple[Plan, ...]] | NotReplayable:
    row = next((row for row in table if row.supports(call)), None)
    if row is None:
        more = "nothing more: its arguments and its result are all there is" if call.is_function else _LOOK_INSIDE
        return NotReplayable(f"no operator is known for {call.op}", more)
    if (part := call.attrs.get("tokens")) is not None and not row.each_token_alone:
        return NotReplayable(f"of {call.name} only the tokens {part} were recorded", "capture without tokens")
    try:
        found = tuple(row.plans(call))
    except UnrecordedError as error:
        return NotReplayable(error.reason, error.record_next, error.lacks_params)
    except (
        ValueError,
        TypeError,
        LookupError,
        ArithmeticError,
        AttributeError,
        UsageError,
    ) as error:  # attributes can hold any value
        return _unfit(call.name, error)
    if not found:
        return _unfit(call.name, "there is no way to read it")
    autocast = call.attrs.get("autocast")
    if row.autocasts and isinstance(autocast, str) and dtypes.known(autocast):
        found = tuple(replace(plan, rounding=autocast) for plan in found)
    return row, found


@dataclass(frozen=True, slots=True)
class _Tried:
    """Run one plan and compare it with the recorded outputs."""

    replayed: Replayed | None
    fits: bool
    error: str = ""

    @property
    def left_over(self) -> float:
        return inf if self.replayed is None or self.replayed.residual is None else self.replayed.residual

    def better_than(self, other: _Tried) -> bool:
        if self.fits != other.fits or other.replayed is None:
            return self.fits or other.replayed is None
        return self.left_over < other.left_over / 2

    def answer(self, call: Call) -> Replayed | NotReplayable:
        if self.replayed is None:
            return _unfit(call.name, self.error)
        if self.replayed.residual is None:
            return NotReplayable(f"no output of {call.name} was recorded to check a replay by", "capture outputs too")
        if not self.fits:
            kind = self.replayed.plan.operator
            return NotReplayable(
                f"{call.name} as {kind} does not give its recorded output again ({self.left_over:.3g} eps off)",
                _LOOK_INSIDE,
                nearest=self.replayed,
            )
        return self.replayed


def _try(plan: Plan, op: str, expected: Mapping[str, np.ndarray], dtype_was: object) -> _Tried:
    try:
        again = _run(plan)
    except ValueError as error:
        return _Tried(None, False, str(error))
    found, fitting = [], []
    for slot in again.outputs.keys() & expected.keys():
        kind = recorded_type(expected[slot], dtype_was)
        recorded = within_half_steps(op, expected[slot], again.outputs[slot])
        found.append(residual(recorded, again.outputs[slot], dtype=kind.name))
        fitting.append(
            found[-1] <= fit_limit(kind) or found[-1] <= limit_of_steps(plan, slot, again.outputs[slot], kind)
        )
    return _Tried(replace(again, residual=max(found, default=None)), bool(found) and all(fitting))


def _as_settled(found: Sequence[Plan], settled: Plan) -> Plan:
    """Return the settled plan on the arrays of the plan found with its function."""
    for plan in found:
        if plan.function is settled.function:
            return replace(settled, arrays=plan.arrays)
    raise ValueError(f"it cannot be read as {settled.operator}")


def _run(plan: Plan) -> Replayed:
    return Replayed(plan.run(), dict(plan.settings), plan)


def _unfit(label: str, error: Exception | str) -> NotReplayable:
    return NotReplayable(f"what was recorded of {label} does not fit together: {error}", _LOOK_INSIDE)
