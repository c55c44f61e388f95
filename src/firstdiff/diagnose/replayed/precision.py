"""Hypotheses: operands held in lower precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.diagnose.hypothesis import Explanation
from firstdiff.diagnose.rows import as_recorded
from firstdiff.dtypes import doubles
from firstdiff.errors import UsageError
from firstdiff.ops import NotReplayable, linear, plans
from firstdiff.ops.arrays import quantised, rounded
from firstdiff.ops.plan import is_bias_name, is_weight_name
from firstdiff.trace import Tensor

_LARGE, _SAMPLE = 1 << 18, 1 << 16
_ABOUT = 30.0


class _Rounded(Counterfactual):
    """Weights, inputs or all of them rounded before the operation."""

    type_name: ClassVar[str]

    def variants(self, trial: Trial) -> Iterator[Variant]:
        arrays = trial.plan.arrays
        if dtypes.eps_of(trial.case.dtype) >= self._coarseness():
            return
        weight = arrays.get("weight")
        if weight is not None and not could_leave(trial, self._coarseness() / 4 * _root_mean_square(weight)):
            return
        held = {name: self.rounded(array) for name, array in arrays.items() if _is_weight(name, array)}
        others = {name: self.rounded(array) for name, array in arrays.items() if _is_activation(name, array)}
        matrices = {name: array for name, array in held.items() if not is_bias_name(name)}
        ways = {
            "weights": held,
            "weights, but not the bias,": matrices if len(matrices) < len(held) else {},
            "inputs": others,
            "weights and inputs": held | others if held and others else {},
            "weights and inputs, but not the bias,": matrices | others if others and len(matrices) < len(held) else {},
        }
        for words, changed in ways.items():
            if changed:
                yield Variant(
                    plan=trial.plan.on(**changed),
                    what=f"with {words} rounded to {self.type_name}",
                    fix=f"keep the {words.split(',')[0]} of {trial.key} in {trial.case.dtype.name}",
                    implies=("weights.differ",) if held else (),
                )

    def rounded(self, array: Any) -> np.ndarray:
        return rounded(array, self.type_name)

    def _coarseness(self) -> float:
        return dtypes.eps_of(dtypes.from_name(self.type_name))


class OperandsBf16(_Rounded):
    """Weights or inputs of an operation are rounded to bfloat16.

    A checkpoint stored in bf16, a cast in front of a kernel, autocast. Each value loses all but 8 binary digits:
    about 0.4 %.

    Tested by rounding weights, inputs or both before the operation is computed. Keep them in the reference's type.
    """

    code = "dtype.bf16"
    type_name = "bfloat16"


class OperandsFp16(_Rounded):
    """Weights or inputs of an operation are rounded to float16.

    As with bf16, but values keep 11 binary digits and overflow beyond 65504.

    Tested by rounding weights, inputs or both before the operation is computed. Keep them in the reference's type.
    """

    code = "dtype.fp16"
    type_name = "float16"


class OperandsInt8(_Rounded):
    """Weights of an operation are quantised to 8 bits, or to 4.

    Each weight is one of 255 (or 15) even steps, of one grid for the whole tensor or one for each output channel.

    Tested by quantising the weights in both ways before the operation is computed; where the candidate is a graph that
    quantises operands and makes them real again, by computing its node on those. Use the unquantised weights, or
    allow for it.
    """

    code = "dtype.int8"
    also = ("dtype.int4",)
    type_name = "float8_e4m3fn"

    def applies(self, case: Case) -> bool:
        return super().applies(case) or (case.comparable and reads_quantised(case))

    def test(self, case: Case) -> Iterator[Explanation]:
        yield from quantised_operands(case)
        yield from super().test(case)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        for name, array in trial.plan.arrays.items():
            if not _is_weight(name, array) or np.ndim(array) < 2:
                continue
            top = float(np.abs(array).max(initial=0.0))
            for bits in (8, 4):
                if not could_leave(trial, top / (2 ** (bits - 1) - 1) / 12**0.5):
                    continue
                for words, axis in (("one grid", None), ("a grid for each row", 0), ("a grid for each column", 1)):
                    values = quantised(np.asarray(array), bits=bits, axis=axis)
                    yield Variant(
                        plan=trial.plan.on(**{name: values}),
                        what=f"with the {name.replace('_', ' ')} quantised to {bits} bits on {words}",
                        fix=f"use the unquantised weights in {trial.key}",
                        cause=f"dtype.int{bits}",
                        implies=("weights.differ",),
                    )


def could_leave(trial: Trial, noise: float) -> bool:
    """Cheap pre-check: True if noise of this size in a large weight leaves about the difference to explain.

    True for small weights, and for operations other than linear.
    """
    if trial.function is not linear.linear or np.size(trial.plan.arrays["weight"]) < _LARGE:
        return True
    given = trial.plan.arrays["input"]
    left = _root_mean_square(trial.case.candidate - trial.case.expected)
    made = noise * _root_mean_square(given) * np.shape(given)[-1] ** 0.5
    return bool(made / _ABOUT <= left <= made * _ABOUT) or not np.isfinite(left)


def _root_mean_square(values: Any) -> float:
    """Return the root mean square of a sample of the values."""
    flat = np.asarray(values).reshape(-1)
    some = doubles(flat[:: max(1, flat.size // _SAMPLE)])
    return float(np.sqrt(np.mean(np.square(some)))) if some.size else 0.0


def _is_weight(name: str, array: Any) -> bool:
    return (is_weight_name(name) or is_bias_name(name)) and _is_float(array)


def _is_activation(name: str, array: Any) -> bool:
    return not (is_weight_name(name) or is_bias_name(name) or name.endswith("mask")) and _is_float(array)


def _is_float(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.ndim > 0 and dtypes.kind_of(array.dtype) == "float"


_BACK_TO_REAL = "DequantizeLinear"
# a weight is at most half a step from what it was; a scale is itself a rounded number
_HALF_A_STEP = 0.51
_IMPLIES = ("weights.differ", "dtype.bf16", "dtype.fp16", "values.clipped", "offset.channel", "scale.channel")


def reads_quantised(case: Case) -> bool:
    """True for a node that reads values which went through integers, as the candidate recorded it."""
    return any(tensor.record.op == _BACK_TO_REAL for tensor in case.candidate_operands.values())


def quantised_operands(case: Case) -> Iterator[Explanation]:
    """Explain a node by its quantised operands, if computing it on them gives the candidate's output."""
    quantised = {slot: item for slot, item in case.candidate_operands.items() if item.record.op == _BACK_TO_REAL}
    honest = all(_is_near(case, slot, item) for slot, item in quantised.items())
    predicted = _run_on_recorded_operands(case) if quantised and honest else None
    if predicted is None or predicted.shape != case.candidate.shape:
        return
    fit = case.fit(predicted)
    bits = 4 if all("int4" in _integer_type(case, item) for item in quantised.values()) else 8
    names = " and ".join(item.name for item in quantised.values())
    yield Explanation(
        cause=f"dtype.int{bits}",
        fit=fit,
        evidence=f"computed from {names}, which were quantised to {bits} bits, {case.falls_to(fit)}",
        fix=f"leave the operands of {case.name} unquantised, or judge the outputs by their SQNR",
        implies=_IMPLIES,
        predicted=predicted,
    )


def _run_on_recorded_operands(case: Case) -> np.ndarray | None:
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
    """False for a quantised weight further from the reference's than half a step: another weight."""
    held, scale = case.sources_of(item)[:2] if len(item.record.sources) > 1 else (None, None)
    if held is None or scale is None or held.key.role != "param":
        return True  # computed by the candidate: the node that quantises it is a row of its own
    ours, theirs, step = case.reference_operand(slot), as_recorded(item), as_recorded(scale)
    if ours is None or theirs is None or step is None or ours.shape != theirs.shape:
        return True
    apart = float(np.abs(doubles(ours) - doubles(theirs)).max(initial=0.0))
    return apart <= _HALF_A_STEP * float(doubles(step).max(initial=0.0))


def _integer_type(case: Case, item: Tensor) -> str:
    """Return the integer dtype that a value was dequantised from."""
    source = next(iter(case.sources_of(item)), None)
    return source.values().dtype.name if source is not None and source.source is not None else ""


BF16: Final = OperandsBf16()
FP16: Final = OperandsFp16()
INT8: Final = OperandsInt8()
