"""Extract the ONNX node at which two runs diverge as a standalone model."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from firstdiff import dtypes
from firstdiff.errors import FirstdiffError
from firstdiff.trace import Tensor, Trace

if TYPE_CHECKING:
    import onnx

# a maintainer opens what comes by mail
_MOST_BYTES = 64 << 20
_NOTED = frozenset(
    ("opset", "node", "output", "outputs", "inputs", "params", "module", "source", "dtype_was", "value", "views")
)

RUN = '''"""Run the node by itself: python run.py (needs onnx, onnxruntime and numpy)."""

import numpy as np
import onnxruntime

options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
session = onnxruntime.InferenceSession("node.onnx", options, providers=["CPUExecutionProvider"])
result = session.run(None, dict(np.load("inputs.npz")))[0]
for name, array in np.load("expected.npz").items():
    if array.shape == result.shape:
        apart = np.abs(result.astype(np.float64) - array.astype(np.float64)).max(initial=0.0)
        print(f"{name}: greatest difference {apart:.6g}")
    else:
        print(f"{name}: shape {array.shape}, the node gives {result.shape}")
'''


class NoSubgraphError(FirstdiffError):
    """There is no such model; the text says why."""


@dataclass(frozen=True, slots=True)
class Subgraph:
    """One node as a model.

    inputs: what it was given in the candidate's run
    expected: what onnxruntime gives for the node alone (`alone`), the candidate recorded, and the reference recorded
    """

    model: onnx.ModelProto
    inputs: Mapping[str, np.ndarray]
    expected: Mapping[str, np.ndarray]
    text: str

    def files(self) -> dict[str, bytes]:
        """Return the files of a folder in which `python run.py` runs the node."""
        return {
            "node.onnx": self.model.SerializeToString(),
            "inputs.npz": _npz(self.inputs),
            "expected.npz": _npz(self.expected),
            "run.py": RUN.encode(),
        }


def subgraph_of(candidate: Trace, name: str, reference: np.ndarray | None) -> Subgraph:
    """Return the node that gives a value of a recorded graph; NoSubgraphError where it cannot be run by itself."""
    node = _node_tensor(candidate, name)
    record = node.record
    slots: list[str] = list(record.attrs.get("inputs") or ())
    if any(not slot.isdigit() for slot in slots):
        raise NoSubgraphError(f"{name} is a {record.op}, which holds a graph of its own")
    by_seq = {tensor.record.seq: tensor for tensor in candidate if tensor.source is not None}
    if len(slots) != len(record.sources) or any(seq not in by_seq for seq in record.sources):
        raise NoSubgraphError(f"not every input of {name} was recorded; capture with --params all and without filters")
    weights: Mapping[str, str] = record.attrs.get("params") or {}
    if set(weights) - set(slots):
        raise NoSubgraphError(f"the weights of {name} were not recorded; capture with --params all")
    sources = [by_seq[seq].values() for seq in record.sources]
    if sum(source.nbytes for source in sources) > _MOST_BYTES:
        raise NoSubgraphError(f"the inputs of {name} take more than {_MOST_BYTES >> 20} MiB")
    arrays = {slot: np.asarray(source.read(), order="C") for slot, source in zip(slots, sources, strict=True)}
    return _built(node, arrays, frozenset(weights), reference)


def _node_tensor(trace: Trace, name: str) -> Tensor:
    """Return the value itself where a name is that of a torch module which a value of the graph stands for."""
    tensor = trace[name]
    value = tensor.record.attrs.get("value")
    if isinstance(value, str):
        known = {item.record.name: item for item in trace if item.record.role == "output"}
        tensor = known.get(value) or known.get(f"value {value}") or tensor
    if "opset" not in tensor.record.attrs or tensor.record.op is None:
        raise NoSubgraphError(f"{name} was not recorded as a node of an ONNX graph")
    return tensor


def _built(
    node: Tensor, arrays: Mapping[str, np.ndarray], weights: frozenset[str], reference: np.ndarray | None
) -> Subgraph:
    from firstdiff.ops.onnx_operators import node_model, onnx_node

    record = node.record
    settings: dict[str, Any] = {
        "op": str(record.op),
        "opset": int(record.attrs["opset"]),
        "slots": tuple(int(slot) for slot in arrays),
        "attributes": {name: value for name, value in record.attrs.items() if name not in _NOTED},
        "output": int(record.attrs.get("output", 0)),
        "outputs": int(record.attrs.get("outputs", 1)),
    }
    given = list(arrays.values())
    try:
        model = node_model(given, **settings)
        result = onnx_node(given, **settings)
    except (ImportError, ValueError) as error:
        raise NoSubgraphError(str(error)) from error
    _make_weights(model, {f"input{slot}": arrays[slot] for slot in weights})
    recorded = node.values().read()
    expected = {"alone": result, "candidate": recorded}
    if reference is not None:
        expected["reference"] = reference
    inputs = {f"input{slot}": array for slot, array in arrays.items() if slot not in weights}
    return Subgraph(model, inputs, expected, _verdict(record.name, str(record.op), result, recorded))


def _make_weights(model: onnx.ModelProto, weights: Mapping[str, np.ndarray]) -> None:
    """Turn inputs into initializers: kernels pack weights that are constant, and may be wrong only then."""
    from onnx import numpy_helper

    kept = [item for item in model.graph.input if item.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())


def _verdict(name: str, op: str, alone: np.ndarray, recorded: np.ndarray) -> str:
    if alone.shape != recorded.shape:
        return f"{name} ({op}) by itself has shape {alone.shape}, in the run {recorded.shape}"
    reference, candidate = dtypes.doubles(alone), dtypes.doubles(recorded)
    apart = float(np.abs(reference - candidate).max(initial=0.0))
    finite = reference[np.isfinite(reference)]
    largest = float(np.abs(finite).max(initial=0.0))
    if apart <= 64 * dtypes.eps_of(alone.dtype) * largest:
        return (
            f"{name} ({op}) by itself gives what the candidate recorded (at most {apart:.3g} apart): the runtime "
            "computes this node as the graph says, so the graph or its weights differ from the reference"
        )
    return (
        f"{name} ({op}) by itself in onnxruntime on the CPU is {apart:.3g} from what the candidate recorded on the "
        "same inputs: the candidate's runtime computes this node otherwise"
    )


def _npz(arrays: Mapping[str, np.ndarray]) -> bytes:
    packed = io.BytesIO()
    plain: dict[str, Any] = {
        name: dtypes.doubles(array).astype(np.float32) if dtypes.is_extended(array.dtype) else array
        for name, array in arrays.items()
    }
    np.savez(packed, **plain)
    return packed.getvalue()
