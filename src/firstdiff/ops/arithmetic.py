"""Sums, products and affine combinations, and the calls recorded of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from firstdiff.dtypes import doubles
from firstdiff.ops.arrays import operator
from firstdiff.ops.norms import normalise
from firstdiff.ops.plan import Function, Plan
from firstdiff.ops.recorded_call import Call, Row, named

Operand = np.ndarray | float


@operator
def add(input: Operand, other: Operand, *, alpha: float = 1.0) -> Any:
    """`input + alpha * other`."""
    return doubles(input) + (doubles(other) if alpha == 1 else alpha * doubles(other))


@operator
def sub(input: Operand, other: Operand, *, alpha: float = 1.0) -> Any:
    """`input - alpha * other`."""
    return doubles(input) - (doubles(other) if alpha == 1 else alpha * doubles(other))


@operator
def mul(input: Operand, other: Operand) -> Any:
    """`input * other`."""
    return doubles(input) * doubles(other)


@operator
def div(input: Operand, other: Operand, *, rounding: str | None = None) -> Any:
    """`input / other`; `rounding` "trunc" or "floor" rounds it."""
    if rounding == "floor":
        return np.floor_divide(doubles(input), doubles(other))
    ratio = doubles(input) / doubles(other)
    return np.trunc(ratio) if rounding == "trunc" else ratio


@operator
def power(input: Operand, exponent: Operand) -> Any:
    """`input ** exponent`."""
    return np.power(doubles(input), doubles(exponent))


@operator
def remainder(input: Operand, other: Operand) -> Any:
    """Return the remainder of a division, with the sign of the divisor."""
    return np.remainder(doubles(input), doubles(other))


@operator
def maximum(input: Operand, other: Operand) -> Any:
    """Return the larger of the two; NaN if either is."""
    return np.maximum(doubles(input), doubles(other))


@operator
def minimum(input: Operand, other: Operand) -> Any:
    """Return the smaller of the two; NaN if either is."""
    return np.minimum(doubles(input), doubles(other))


@operator
def lerp(input: Operand, end: Operand, weight: Operand) -> Any:
    """`input + weight * (end - input)`."""
    start = doubles(input)
    return start + doubles(weight) * (doubles(end) - start)


@operator
def addcmul(input: Operand, tensor1: Operand, tensor2: Operand, *, value: float = 1.0) -> Any:
    """`input + value * tensor1 * tensor2`."""
    return doubles(input) + value * doubles(tensor1) * doubles(tensor2)


@operator
def addcdiv(input: Operand, tensor1: Operand, tensor2: Operand, *, value: float = 1.0) -> Any:
    """`input + value * tensor1 / tensor2`."""
    return doubles(input) + value * doubles(tensor1) / doubles(tensor2)


@operator
def modulate(input: np.ndarray, shift: np.ndarray, scale: np.ndarray, *, one_plus: bool = True, axis: int = 1) -> Any:
    """Return the `x * (1 + scale) + shift` of adaLN.

    shift, scale: one number for each channel of each sample, the axis of the tokens missing or of size 1
    one_plus: False multiplies with `scale` alone
    axis: where the missing axis belongs
    """
    x = doubles(input)
    moved, stretched = (
        np.expand_dims(item, axis) if item.ndim == x.ndim - 1 and item.ndim > 1 else item
        for item in (doubles(shift), doubles(scale))
    )
    return x * (stretched + (1.0 if one_plus else 0.0)) + moved


def _binary(function: Function, *settings: str, second: str = "other") -> Callable[[Call], Iterator[Plan]]:
    def plans(call: Call) -> Iterator[Plan]:
        arrays = {"input": call.operand("input", "0"), second: call.operand(second, "other", "1")}
        yield Plan.of(function, arrays, **call.read(*settings).settings)

    return plans


def _div(call: Call) -> Iterator[Plan]:
    arrays = {"input": call.operand("input", "0"), "other": call.operand("other", "1")}
    rounding = "floor" if call.op == "floor_divide" else call.told("rounding_mode")
    yield Plan.of(div, arrays, rounding=rounding)


def _lerp(call: Call) -> Iterator[Plan]:
    arrays = {"input": call.main(), "end": call.operand("end", "1"), "weight": call.operand("weight", "2")}
    yield Plan.of(lerp, arrays)


def _with_two(function: Function) -> Callable[[Call], Iterator[Plan]]:
    def plans(call: Call) -> Iterator[Plan]:
        arrays = {"input": call.main(), "tensor1": call.operand("tensor1"), "tensor2": call.operand("tensor2")}
        yield Plan.of(function, arrays, **call.read("value").settings)

    return plans


def _modulate(call: Call) -> Iterator[Plan]:
    arrays = {
        "input": call.array("x", "input", "0"),
        "shift": call.array("shift", "1"),
        "scale": call.array("scale", "2"),
    }
    for one_plus in (True, False):
        yield Plan.of(modulate, arrays, one_plus=one_plus, assumed=("one_plus",))


def _normalise(call: Call) -> Iterator[Plan]:
    """Read a transform with a mean and a standard deviation for each channel."""
    numbers = {name: np.asarray(call.needed(name), dtype=np.float64) for name in ("mean", "std")}
    yield Plan.of(normalise, {"input": call.main(), **numbers})


ROWS = (
    Row(supports=named("add Add"), plans=_binary(add, "alpha")),
    Row(supports=named("sub Sub"), plans=_binary(sub, "alpha")),
    Row(supports=named("mul Mul"), plans=_binary(mul)),
    Row(supports=named("div Div floor_divide"), plans=_div),
    Row(supports=named("pow Pow"), plans=_binary(power, second="exponent")),
    Row(supports=named("remainder"), plans=_binary(remainder)),
    Row(supports=named("maximum"), plans=_binary(maximum)),
    Row(supports=named("minimum"), plans=_binary(minimum)),
    Row(supports=named("lerp"), plans=_lerp),
    Row(supports=named("addcmul"), plans=_with_two(addcmul)),
    Row(supports=named("addcdiv"), plans=_with_two(addcdiv)),
    Row(supports=named("modulate Modulate"), plans=_modulate),
    Row(supports=lambda call: call.op == "Normalize" and {"mean", "std"} <= call.attrs.keys(), plans=_normalise),
)
