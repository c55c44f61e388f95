"""Recorded ONNX nodes, read as torch operators where there is one, else run in onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from firstdiff.ops import activations, arithmetic, onnx_operators, shaping
from firstdiff.ops.conv import conv
from firstdiff.ops.elementwise import elementwise, log_softmax, softmax
from firstdiff.ops.linear import linear, matmul
from firstdiff.ops.norms import batch_norm, group_norm, layer_norm, rms_norm
from firstdiff.ops.plan import Function, Plan
from firstdiff.ops.recorded_call import Call, Row, UnrecordedError
from firstdiff.ops.reductions import reduce

_OWN_ATTRS = frozenset(("opset", "node", "output", "outputs", "inputs", "params", "module", "source", "dtype_was"))
_FIRST_OPSET = 9  # before it, inputs were broadcast, reshaped and scaled by attributes
_SOFTMAX_OF_ONE_AXIS = 13  # the first opset: before it, an axis and all after it were one
_MATRIX = 2  # axes
_TYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    16: "bfloat16",
}
_ELEMENTWISE = {"Neg": "neg", "Reciprocal": "reciprocal"} | {
    name.capitalize(): name for name in ("sqrt", "exp", "log", "erf", "abs", "sin", "cos", "tan", "floor", "ceil")
}


def _one(function: Function, **spelt: str) -> Callable[[Call], Iterator[Plan]]:
    """Make the reader of a function of one input; `spelt` gives the attribute for each setting."""

    def plans(call: Call) -> Iterator[Plan]:
        yield Plan.of(function, {"input": call.array("0")}, **call.read(**spelt).settings)

    return plans


def _two(function: Function, second: str = "other") -> Callable[[Call], Iterator[Plan]]:
    def plans(call: Call) -> Iterator[Plan]:
        yield Plan.of(function, {"input": call.array("0"), second: call.array("1")})

    return plans


def _elementwise(call: Call) -> Iterator[Plan]:
    yield Plan.of(elementwise, {"input": call.array("0")}, kind=_ELEMENTWISE[call.op])


def _div(call: Call) -> Iterator[Plan]:
    arrays = {"input": call.array("0"), "other": call.array("1")}
    yield Plan.of(arithmetic.div, arrays, rounding="trunc" if arrays["input"].dtype.kind in "iu" else None)


def _gemm(call: Call) -> Iterator[Plan]:
    scales = call.told("alpha", default=1.0), call.told("beta", default=1.0)
    if scales != (1.0, 1.0) or call.told("transA"):
        yield from _alone(call)
        return
    arrays = {"input": call.array("0"), "weight": call.array("1"), "bias": call.optional("2")}
    yield Plan.of(linear, arrays, transposed=not call.told("transB", default=0))


def _matmul(call: Call) -> Iterator[Plan]:
    """Read a product; with a recorded weight as a linear layer, for which there are more hypotheses."""
    weight = call.array("1")
    if "1" not in (call.attrs.get("params") or ()) or weight.ndim != _MATRIX:
        yield from _two(matmul)(call)
        return
    yield Plan.of(linear, {"input": call.array("0"), "weight": weight, "bias": None}, transposed=True)


def _softmax(call: Call) -> Iterator[Plan]:
    function = softmax if call.op == "Softmax" else log_softmax
    x, of_one = call.array("0"), int(call.attrs["opset"]) >= _SOFTMAX_OF_ONE_AXIS
    axis = call.told("axis", default=-1 if of_one else 1)
    if of_one or axis in (-1, x.ndim - 1):
        yield Plan.of(function, {"input": x}, dim=axis)
    else:
        yield from _alone(call)


def _layer_norm(call: Call) -> Iterator[Plan]:
    function = layer_norm if call.op == "LayerNormalization" else rms_norm
    x = call.array("0")
    axis = call.told("axis", default=-1)
    axes = tuple(range(axis if axis < 0 else axis - x.ndim, 0))
    arrays = {"input": x, "weight": call.array("1"), "bias": call.optional("2")}
    yield Plan.of(function, arrays, axes=axes, eps=call.told("epsilon", default=1e-5))


def _batch_norm(call: Call) -> Iterator[Plan]:
    names = ("input", "weight", "bias", "running_mean", "running_var")
    arrays = {name: call.array(str(slot)) for slot, name in enumerate(names)}
    of_batch = bool(call.told("training_mode", default=0))
    yield Plan.of(batch_norm, arrays, eps=call.told("epsilon", default=1e-5), batch_statistics=of_batch)


def _instance_norm(call: Call) -> Iterator[Plan]:
    arrays = {"input": call.array("0"), "weight": call.array("1"), "bias": call.array("2")}
    yield Plan.of(group_norm, arrays, groups=arrays["input"].shape[1], eps=call.told("epsilon", default=1e-5))


def _conv(call: Call) -> Iterator[Plan]:
    if call.told("auto_pad", default="NOTSET") != "NOTSET":
        yield from _alone(call)
        return
    arrays = {"input": call.array("0"), "weight": call.array("1"), "bias": call.optional("2")}
    axes = arrays["weight"].ndim - 2  # type: ignore[union-attr]
    pads = call.told("pads", default=[0] * (2 * axes))
    yield Plan.of(
        conv,
        arrays,
        stride=tuple(call.told("strides", default=[1] * axes)),
        padding=tuple(zip(pads[:axes], pads[axes:], strict=True)),
        dilation=tuple(call.told("dilations", default=[1] * axes)),
        groups=call.told("group", default=1),
    )


def _reduce(kind: str) -> Callable[[Call], Iterator[Plan]]:
    def plans(call: Call) -> Iterator[Plan]:
        given = call.optional("1")
        axes = call.told("axes") if given is None else [int(axis) for axis in given]
        if not axes and call.told("noop_with_empty_axes", default=0):
            yield Plan.of(activations.identity, {"input": call.array("0")})
            return
        keep = bool(call.told("keepdims", default=1))
        yield Plan.of(reduce, {"input": call.array("0")}, kind=kind, dim=tuple(axes) if axes else None, keepdim=keep)

    return plans


def _gelu(call: Call) -> Iterator[Plan]:
    yield Plan.of(activations.gelu, {"input": call.array("0")}, approximate=call.told("approximate", default="none"))


def _concat(call: Call) -> Iterator[Plan]:
    parts = tuple(call.array(slot) for slot in _slots(call))
    yield Plan.of(shaping.cat, {"tensors": parts}, dim=call.needed("axis"))


def _where(call: Call) -> Iterator[Plan]:
    arrays = {"condition": call.array("0"), "input": call.array("1"), "other": call.array("2")}
    yield Plan.of(shaping.where, arrays)


def _reshape(call: Call) -> Iterator[Plan]:
    arrays = {"input": call.array("0"), "shape": call.array("1")}
    yield Plan.of(onnx_operators.reshape, arrays, allowzero=bool(call.told("allowzero", default=0)))


def _gather(call: Call) -> Iterator[Plan]:
    arrays = {"input": call.array("0"), "index": call.array("1")}
    yield Plan.of(onnx_operators.gather, arrays, axis=call.told("axis", default=0))


def _cast(call: Call) -> Iterator[Plan]:
    to = _TYPES.get(call.needed("to"))
    if to is None:
        yield from _alone(call)
    else:
        yield Plan.of(onnx_operators.cast, {"input": call.array("0")}, to=to)


def _slots(call: Call) -> list[str]:
    """Return the names of all inputs in order, also of those that were not recorded."""
    listed: set[str] = {*(call.attrs.get("inputs") or ()), *(call.attrs.get("params") or ()), *call.inputs}
    return sorted((slot for slot in listed if slot.isdigit()), key=int)


def _alone(call: Call) -> Iterator[Plan]:
    if any(not slot.isdigit() for slot in call.attrs.get("inputs") or ()):
        raise UnrecordedError(f"{call.name} holds a graph of its own", "nothing more: loops are not opened")
    slots = _slots(call)
    arrays = tuple(call.array(slot) for slot in slots)
    attributes: dict[str, Any] = {name: value for name, value in call.attrs.items() if name not in _OWN_ATTRS}
    yield Plan.of(
        onnx_operators.onnx_node,
        {"inputs": arrays},
        op=call.op,
        opset=int(call.attrs["opset"]),
        slots=tuple(int(slot) for slot in slots),
        attributes=attributes,
        output=int(call.attrs.get("output", 0)),
        outputs=int(call.attrs.get("outputs", 1)),
    )


_PLANS: dict[str, Callable[[Call], Iterator[Plan]]] = {
    "Add": _two(arithmetic.add),
    "Sub": _two(arithmetic.sub),
    "Mul": _two(arithmetic.mul),
    "Div": _div,
    "Pow": _two(arithmetic.power, "exponent"),
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "LayerNormalization": _layer_norm,
    "RMSNormalization": _layer_norm,
    "BatchNormalization": _batch_norm,
    "InstanceNormalization": _instance_norm,
    "Relu": _one(activations.relu),
    "Sigmoid": _one(activations.sigmoid),
    "Tanh": _one(activations.tanh),
    "Gelu": _gelu,
    "Identity": _one(activations.identity),
    "If": _one(activations.identity),  # the output of the branch taken
    "Transpose": _one(onnx_operators.transpose, perm="perm"),
    "Concat": _concat,
    "Where": _where,
    "Reshape": _reshape,
    "Gather": _gather,
    "Cast": _cast,
    **{f"Reduce{kind.capitalize()}": _reduce(kind) for kind in ("mean", "sum", "prod")},
    "ReduceMax": _reduce("amax"),
    "ReduceMin": _reduce("amin"),
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
}


def _is_node(call: Call) -> bool:
    return "opset" in call.attrs and "node" in call.attrs


def _plans(call: Call) -> Iterator[Plan]:
    """Read a standard operator in float64; run the node by itself for other outputs, old opsets and other operators."""
    known = _PLANS.get(call.op)
    whole = not call.attrs.get("output") and int(call.attrs["opset"]) >= _FIRST_OPSET
    strings = any(np.asarray(array).dtype.kind in "OSU" for array in call.inputs.values())
    return known(call) if known is not None and whole and not strings else _alone(call)


ROWS = (Row(supports=_is_node, plans=_plans, each_token_alone=False),)
