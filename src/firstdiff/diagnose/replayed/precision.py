"""Hypotheses: operands held in lower precision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.diagnose.hypothesis import Explanation
from firstdiff.diagnose.replayed.quantised_graph import (
    computes_in_integers,
    integer_operands,
    quantised_operands,
    reads_quantised,
)
from firstdiff.dtypes import doubles
from firstdiff.ops import linear
from firstdiff.ops.arrays import quantised, rounded
from firstdiff.ops.plan import is_bias_name, is_weight_name

_LARGE, _SAMPLE = 1 << 18, 1 << 16
_ABOUT = 30.0


class _Rounded(Counterfactual):
    """Weights, inputs or all of them rounded before the operation."""

    type_name: ClassVar[str]

    def variants(self, trial: Trial) -> Iterator[Variant]:
        arrays = trial.plan.arrays
        if self._is_held_so(trial):
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
                    fix=f"keep the {words.split(',')[0]} of {trial.key} in {trial.case.reference_dtype.name}",
                    implies=("weights.differ",) if held else (),
                )

    def rounded(self, array: Any) -> np.ndarray:
        return rounded(array, self.type_name)

    def _is_held_so(self, trial: Trial) -> bool:
        """True where a result in this type is what its inputs ask for: they have no more digits."""
        given = [array.dtype for name, array in trial.plan.arrays.items() if _is_activation(name, array)]
        types = (
            given if given and dtypes.eps_of(trial.case.reference_dtype) < self._coarseness() else [trial.case.dtype]
        )
        return all(dtypes.eps_of(dtype) >= self._coarseness() for dtype in types)

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
    quantises operands and makes them real again, by computing its node on those; and where it multiplies whole
    numbers, by computing the reference's node on what they stand for. Use the unquantised weights, or allow for it.
    """

    code = "dtype.int8"
    also = ("dtype.int4",)
    type_name = "float8_e4m3fn"

    def applies(self, case: Case) -> bool:
        return super().applies(case) or (case.comparable and (reads_quantised(case) or computes_in_integers(case)))

    def test(self, case: Case) -> Iterator[Explanation]:
        yield from quantised_operands(case)
        yield from integer_operands(case)
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


BF16: Final = OperandsBf16()
FP16: Final = OperandsFp16()
INT8: Final = OperandsInt8()
