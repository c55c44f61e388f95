"""Table rows: matrix products."""

from __future__ import annotations

from collections.abc import Iterator

from firstdiff.ops.linear import addbmm, addmm, einsum, linear, matmul, outer
from firstdiff.ops.plan import Plan
from firstdiff.ops.table.call import Call, UnrecordedError
from firstdiff.ops.table.row import Row, named


def _linear(call: Call) -> Iterator[Plan]:
    arrays = {"input": call.main(), "weight": call.weight(), "bias": call.optional("bias")}
    yield Plan.of(linear, arrays, transposed=call.op == "Conv1D")


def _like_linear(call: Call) -> Iterator[Plan]:
    """A class of somebody's own: the shapes say which way the weight lies, unless it is square."""
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
