"""Matrix products, and the calls recorded of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from firstdiff.dtypes import doubles
from firstdiff.ops.arrays import operator
from firstdiff.ops.plan import Plan
from firstdiff.ops.recorded_call import Call, Row, UnrecordedError, named


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
    """Sum products by the Einstein convention, as matrix products where possible."""
    return np.einsum(equation, *(doubles(item) for item in operands), optimize=True)


@operator
def outer(input: np.ndarray, other: np.ndarray) -> Any:
    """Return the outer product of two vectors."""
    return np.outer(doubles(input), doubles(other))


def _linear(call: Call) -> Iterator[Plan]:
    arrays = {"input": call.main(), "weight": call.weight(), "bias": call.optional("bias")}
    yield Plan.of(linear, arrays, transposed=call.op == "Conv1D")


def _like_linear(call: Call) -> Iterator[Plan]:
    """Read a custom linear class: the shapes tell the orientation of a weight that is not square."""
    x, weight = call.main(), call.weight()
    arrays = {"input": x, "weight": weight, "bias": call.optional("bias")}
    ways = [
        way for way in (False, True) if weight.ndim == 2 and x.ndim and weight.shape[0 if way else 1] == x.shape[-1]
    ]
    if not ways:
        shapes = f"a weight of {list(weight.shape)} and an input of {list(x.shape)}"
        raise UnrecordedError(f"{call.name} has {shapes}, which is no product of matrices", "capture with level='op'")
    for way in ways:
        yield Plan.of(linear, arrays, transposed=way, assumed=("transposed",) if len(ways) > 1 else ())


def _matmul(call: Call) -> Iterator[Plan]:
    second = call.array("other", "1", "mat2", "vec", "tensor")
    yield Plan.of(matmul, {"input": call.main(), "other": second})


def _addmm(call: Call) -> Iterator[Plan]:
    arrays = {"input": call.main(), "mat1": call.array("mat1", "batch1"), "mat2": call.array("mat2", "batch2")}
    yield Plan.of(addmm, arrays, **call.read("beta", "alpha").settings)


def _addbmm(call: Call) -> Iterator[Plan]:
    arrays = {"input": call.main(), "batch1": call.array("batch1"), "batch2": call.array("batch2")}
    yield Plan.of(addbmm, arrays, **call.read("beta", "alpha").settings)


def _einsum(call: Call) -> Iterator[Plan]:
    equation = call.needed("equation")
    count = equation.split("->")[0].count(",") + 1
    operands = tuple(call.array(f"operands.{number}") for number in range(count))
    yield Plan.of(einsum, {"operands": operands}, equation=equation.replace(" ", ""))


def _outer(call: Call) -> Iterator[Plan]:
    yield Plan.of(outer, {"input": call.main(), "other": call.array("other", "1")})


ROWS = (
    Row(supports=named("Linear linear NonDynamicallyQuantizableLinear Conv1D"), plans=_linear, autocasts=True),
    Row(supports=named("matmul bmm mm mv dot inner MatMul"), plans=_matmul, each_token_alone=False, autocasts=True),
    Row(supports=named("addmm baddbmm"), plans=_addmm, each_token_alone=False, autocasts=True),
    Row(supports=named("addbmm"), plans=_addbmm, each_token_alone=False, autocasts=True),
    Row(supports=named("einsum"), plans=_einsum, each_token_alone=False, autocasts=True),
    Row(supports=named("outer"), plans=_outer, each_token_alone=False),
    Row(
        supports=lambda call: not call.is_function and call.op.endswith(("Linear", "Dense")),
        plans=_like_linear,
        autocasts=True,
    ),
)
