"""Arithmetic operators on two tensors, or a tensor and a number."""

from __future__ import annotations

from typing import Any

import numpy as np

from firstdiff.ops.arrays import doubles
from firstdiff.ops.operator import operator

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
    """`input / other`; `rounding` "trunc" or "floor" makes whole numbers of it."""
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
    """The remainder of a division, with the sign of the divisor."""
    return np.remainder(doubles(input), doubles(other))


@operator
def maximum(input: Operand, other: Operand) -> Any:
    """The larger of the two; NaN if either is."""
    return np.maximum(doubles(input), doubles(other))


@operator
def minimum(input: Operand, other: Operand) -> Any:
    """The smaller of the two; NaN if either is."""
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
    """The `x * (1 + scale) + shift` of adaLN.

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
