"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from firstdiff.ops.arrays import doubles
from firstdiff.ops.operator import operator


@operator
def linear(input: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None, *, transposed: bool = False) -> Any:
    """`input @ weight.T + bias`.

    weight: `[out, in]`, or a vector for a single output without an axis
    transposed: the weight is stored `[in, out]`, as in GPT-2's Conv1D
    """
    x, matrix = doubles(input), doubles(weight)
    if matrix.ndim == 1:
        out = x @ matrix
    else:
        matrix = matrix if transposed else matrix.T
        out = (x.reshape(-1, x.shape[-1]) @ matrix).reshape(*x.shape[:-1], matrix.shape[1])
    if bias is not None:
        out = out + doubles(bias)
    return out


@operator
def matmul(
    input: np.ndarray, other: np.ndarray, *, transpose_input: bool = False, transpose_other: bool = False
) -> Any:
    """`input @ other`, with the last two axes of either swapped first if asked."""
    left, right = doubles(input), doubles(other)
    left = left.swapaxes(-1, -2) if transpose_input else left
    return np.matmul(left, right.swapaxes(-1, -2) if transpose_other else right)


@operator
def addmm(input: np.ndarray, mat1: np.ndarray, mat2: np.ndarray, *, beta: float = 1.0, alpha: float = 1.0) -> Any:
    """`beta * input + alpha * mat1 @ mat2`, also for stacks of matrices; beta 0 leaves the input out, NaN and all."""
    product = alpha * np.matmul(doubles(mat1), doubles(mat2))
    return product + beta * doubles(input) if beta else product


@operator
def addbmm(input: np.ndarray, batch1: np.ndarray, batch2: np.ndarray, *, beta: float = 1.0, alpha: float = 1.0) -> Any:
    """`beta * input + alpha *` the sum of the products of all pairs of matrices."""
    product = alpha * np.einsum("bij,bjk->ik", doubles(batch1), doubles(batch2), optimize=True)
    return product + beta * doubles(input) if beta else product


@operator
def einsum(operands: Sequence[np.ndarray], *, equation: str) -> Any:
    """Einstein summation, by matrix products where there are any."""
    return np.einsum(equation, *(doubles(item) for item in operands), optimize=True)


@operator
def outer(input: np.ndarray, other: np.ndarray) -> Any:
    """Every product of an element of one vector and one of the other."""
    return np.outer(doubles(input), doubles(other))
