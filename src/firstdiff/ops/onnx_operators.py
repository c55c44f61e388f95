"""ONNX operators that move values, and single nodes run in onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from firstdiff import dtypes
from firstdiff.dtypes import doubles
from firstdiff.ops.arrays import operator, rounded, whole_numbers

if TYPE_CHECKING:
    import onnx


_ERRORS_ONLY = 4


@operator
def transpose(input: np.ndarray, *, perm: Sequence[int] | None = None) -> Any:
    """Permute the axes, or reverse them."""
    return np.transpose(doubles(input), perm)


@operator
def reshape(input: np.ndarray, shape: np.ndarray, *, allowzero: bool = False) -> Any:
    """Reshape; 0 keeps the size of an axis unless `allowzero`, -1 infers it."""
    x = doubles(input)
    wanted = [int(size) for size in whole_numbers(shape)]
    if not allowzero:
        wanted = [x.shape[axis] if size == 0 else size for axis, size in enumerate(wanted)]
    return x.reshape(wanted)


@operator
def gather(input: np.ndarray, index: np.ndarray, *, axis: int = 0) -> Any:
    """Take the slices at the indices along an axis."""
    return np.take(doubles(input), whole_numbers(index), axis=axis)


@operator
def cast(input: np.ndarray, *, to: str) -> Any:
    """Round to the values that another dtype holds."""
    if dtypes.kind_of(dtypes.from_name(to)) == "float":
        return rounded(doubles(input), to)
    x = doubles(input)
    return (x != 0).astype(np.float64) if to == "bool" else np.trunc(x)


def onnx_node(
    inputs: Sequence[np.ndarray],
    *,
    op: str,
    opset: int,
    slots: Sequence[int],
    attributes: Mapping[str, Any],
    output: int = 0,
    outputs: int = 1,
) -> np.ndarray:
    """Run one node by itself in onnxruntime, on arrays of the types it takes.

    op: its kind, after the domain and a colon where it is not a standard one
    slots: the position of each input among the node's
    attributes: as recorded
    output, outputs: which of its outputs to give, and how many there are
    """
    import onnxruntime

    model = node_model(inputs, op=op, opset=opset, slots=slots, attributes=attributes, output=output, outputs=outputs)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = _ERRORS_ONLY
    options.intra_op_num_threads = 1
    feeds = {f"input{slot}": np.asarray(array, order="C") for slot, array in zip(slots, inputs, strict=True)}
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        result = session.run(None, feeds)[0]
    except Exception as error:  # the runtime has an exception class for every status
        raise ValueError(f"onnxruntime cannot run {op} by itself ({str(error).splitlines()[0]})") from error
    return np.asarray(result)


def node_model(
    inputs: Sequence[np.ndarray],
    *,
    op: str,
    opset: int,
    slots: Sequence[int],
    attributes: Mapping[str, Any],
    output: int = 0,
    outputs: int = 1,
) -> onnx.ModelProto:
    """Build a model of a single node, its inputs typed by arrays."""
    from onnx import ModelProto, ValueInfoProto, helper

    domain, _, kind = op.rpartition(":")
    names = [f"input{slot}" if slot in slots else "" for slot in range(max(slots, default=-1) + 1)]
    given = _attributes(kind, domain, opset, attributes)
    results = ["output" if slot == output else f"other{slot}" for slot in range(max(outputs, output + 1))]
    graph = helper.make_graph(
        [helper.make_node(kind, names, results, domain=domain, **given)],
        "node",
        [
            helper.make_tensor_value_info(f"input{slot}", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for slot, array in zip(slots, inputs, strict=True)
        ],
        [ValueInfoProto(name="output")],
    )
    sets = [helper.make_opsetid(domain, opset)] + ([helper.make_opsetid("", 18)] if domain else [])
    model: ModelProto = helper.make_model(graph, opset_imports=sets, ir_version=9)
    return model


def _attributes(kind: str, domain: str, opset: int, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Convert recorded attributes to the types in the operator's definition."""
    from onnx import defs, helper

    try:
        known = defs.get_schema(kind, opset, domain).attributes
    except defs.SchemaError:
        return dict(recorded)
    missing = [name for name, item in known.items() if item.required and name not in recorded]
    if missing:
        raise ValueError(f"the {missing[0]} of {kind} was not recorded")
    made: dict[str, Any] = {}
    for name, value in recorded.items():
        if name not in known:
            continue
        if isinstance(value, Mapping):
            array = np.array(value["values"], dtypes.from_name(value["dtype"])).reshape(value["shape"])
            made[name] = helper.make_tensor(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, array.ravel()
            )
        elif "FLOAT" in str(known[name].type):
            made[name] = [float(item) for item in value] if isinstance(value, list) else float(value)
        elif value != []:
            made[name] = value
    return made
