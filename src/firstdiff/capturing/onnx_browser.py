"""Record a model that runs in a browser: send it the parts of the model, receive their values, write the trace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np

from firstdiff.capturing.onnx_file import OnnxModel
from firstdiff.capturing.onnx_graph import Part, Parts, value_bytes
from firstdiff.capturing.onnx_values import Params, ValueRecorder, distance
from firstdiff.capturing.queue_writer import QueueWriter
from firstdiff.capturing.recording import noted_input, producer
from firstdiff.capturing.session import Filters, Session
from firstdiff.errors import ReadError
from firstdiff.trace import TraceWriter

if TYPE_CHECKING:
    import onnx

Provider = Literal["wasm", "webgpu"]
PART_BYTES = 64 << 20
# 32-bit WebAssembly addresses 4 GiB, and the runtime holds a model's bytes twice while it loads them, beside itself
WASM_BYTES = 7 << 28

_NO_KERNEL = re.compile(r"Could not find an implementation for (\S+?)\((\d+)\) node with name '([^']*)'")
_NO_OPERATOR = re.compile(r"([\w.]+:\w+)\(-?\d+\) is not a registered function/op|No Op registered for (\w+)")
_NO_MEMORY = re.compile(
    r"bad_alloc|out of memory|allocation failed|failed to allocate|memory access out of bounds", re.I
)
_SHAPE_OUTSIDE = re.compile(r"Cannot parse data from external tensors.*for tensor: (\S+)")
_NO_TYPE = re.compile(r"unsupported data type|bfloat16|float8", re.I)


@dataclass(frozen=True, slots=True)
class BrowserPart:
    """A part of a model as the browser runs it.

    model: bytes of an ONNX file, weights included
    feeds: names to feed, of inputs and of values of earlier parts
    values: names to fetch, in order
    kept: names that later parts need
    done: share of the model's nodes that have run after it
    """

    model: bytes
    feeds: tuple[str, ...]
    values: tuple[str, ...]
    kept: tuple[str, ...]
    done: float


@dataclass(frozen=True, slots=True)
class BrowserCaptured:
    """The result of a browser capture.

    optimized: for each output, how far the untouched, optimised model's is from the exposed one's, in its deviations
    plain: the same for the untouched model without optimisation
    left_out: sentences about what is not in the trace
    """

    path: Path
    tensors: int
    optimized: dict[str, float]
    plain: dict[str, float]
    left_out: tuple[str, ...]


@final
class BrowserCapture:
    """One run of a model in a browser. It is what `Parts` asks about values that were computed.

    path: the folder to write
    agent: what the browser calls itself
    """

    def __init__(
        self,
        model: OnnxModel,
        inputs: Mapping[str, np.ndarray],
        path: Path,
        *,
        provider: Provider = "wasm",
        optimize: bool = False,
        params: Params = "auto",
        agent: str = "",
        overwrite: bool = False,
        part_bytes: int = PART_BYTES,
    ) -> None:
        check_size(model)
        self._model = model
        about = {
            "model": model.path.name,
            "opset": model.opsets.get("", 0),
            "nodes": len(model.proto.graph.node),
            "provider": provider,
            "optimize": optimize,
            "browser": agent,
        }
        made_by = producer(runtime="onnxruntime-web")
        self._trace = TraceWriter(path, producer=made_by, header={**noted_input(), "onnx": about}, overwrite=overwrite)
        self._writer = QueueWriter(self._trace, beside=True)
        self._session = Session(self._writer, Filters((), ()))
        self._recorder = ValueRecorder(model, self._session, params, provider)
        self._recorder.record_inputs(inputs)
        self._outputs = {output.name: np.empty(0) for output in model.proto.graph.output}
        self._types: dict[str, tuple[np.dtype, int]] = {}
        self._conditions: dict[str, bool] = {}
        sizes = value_bytes(model, {name: array.shape for name, array in inputs.items()})
        parts = Parts(model, sizes, part_bytes)
        for name in inputs:  # old models list weights among their inputs; one that is given replaces the stored one
            parts.weights.pop(name, None)
        self._parts = parts.run(self)
        self._current: Part | None = None

    def next_part(self) -> BrowserPart | None:
        """The part to run now; None after the last. Take its results before asking for the next."""
        self._current = next(self._parts, None)
        if self._current is None:
            return None
        part = self._current
        self._recorder.record_params(part)
        return BrowserPart(
            _with_weights(part.model, self._model),
            part.feeds,
            tuple(value.name for value in part.values),
            tuple(sorted(part.kept)),
            part.done,
        )

    def take(self, results: Mapping[str, np.ndarray], kinds: Mapping[str, str]) -> None:
        """Record what the current part gave; `kinds` names the types of values that are no tensors of numbers."""
        assert self._current is not None, "results follow a part"
        for value in self._current.values:
            array = results.get(value.name)
            self._recorder.record(value, array, kinds.get(value.name, "a value that the browser did not send"))
            if array is None:
                continue
            self._types[value.name] = (array.dtype, array.ndim)
            if array.size == 1 and array.dtype == bool:
                self._conditions[value.name] = bool(array.reshape(-1)[0])
            if value.name in self._outputs:
                self._outputs[value.name] = array

    def finish(self, optimized: Mapping[str, np.ndarray], plain: Mapping[str, np.ndarray]) -> BrowserCaptured:
        """Close the trace; both are outputs of the untouched model, the optimised ones are recorded too."""
        found: dict[str, float] = {}
        for name, array in optimized.items():
            apart = self._recorder.record_optimized(name, self._outputs[name], array) if name in self._outputs else None
            if apart is not None:
                found[name] = apart
        unoptimized = {name: distance(self._outputs[name], array) for name, array in plain.items()}
        self._writer.finish()
        if self._writer.error is not None:
            self.abandon(str(self._writer.error))
            raise self._writer.error
        self._trace.close(**self._session.summary(), optimized=found)
        left_out = tuple(self._session.surprises())
        return BrowserCaptured(self._trace.path, self._session.tensors, found, unoptimized, left_out)

    def abandon(self, reason: str) -> None:
        """Close the trace as incomplete; what arrived stays."""
        self._writer.finish()
        self._trace.abandon(reason)

    def type_of(self, name: str) -> onnx.TypeProto:
        from onnx import TypeProto, helper

        for item in self._model.proto.graph.input:
            if item.name == name:
                declared: onnx.TypeProto = item.type
                return declared
        if name not in self._types:
            raise ReadError(
                f"{name} is a sequence, which a browser cannot hand from one part of a model to the next; "
                "record it with `firstdiff capture onnx`",
                str(self._model.path),
            )
        dtype, rank = self._types[name]
        found = TypeProto()
        found.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(dtype)
        found.tensor_type.shape.SetInParent()
        for _ in range(rank):
            found.tensor_type.shape.dim.add()
        return found

    def is_true(self, name: str) -> bool:
        return self._conditions[name]


def check_size(model: OnnxModel) -> None:
    """Raise ReadError for a model that WebAssembly has no room for."""
    total = sum(array.nbytes for tensor in model.weights.values() if (array := model.array(tensor)) is not None)
    if total > WASM_BYTES:
        raise ReadError(
            f"its weights take {total / 2**30:.1f} GiB, more than the {WASM_BYTES / 2**30:.2f} GiB that fit into "
            "WebAssembly's memory with the runtime's copy of them; quantise it or take a smaller one",
            str(model.path),
        )


def browser_error(message: str, provider: str, path: Path) -> str:
    """One sentence for what onnxruntime-web threw."""
    text = " ".join(message.split())
    if found := _NO_KERNEL.search(text):
        op, opset, node = found.groups()
        return f"{path}: onnxruntime-web has no kernel for {op} of opset {opset} on {provider} (node {node!r})"
    if found := _NO_OPERATOR.search(text):
        return (
            f"{path}: onnxruntime-web does not know the operator {found[1] or found[2]}; rewrite it with standard ones"
        )
    if found := _SHAPE_OUTSIDE.search(text):
        return (
            f"{path}: onnxruntime-web needs {found[1].rstrip('.')}, which tells a shape, inside the model file; "
            "save it again with onnx.save_model(…, save_as_external_data=True, size_threshold=1024)"
        )
    if _NO_MEMORY.search(text):
        return f"{path}: it does not fit into the browser's memory ({text[:200]}); quantise it or take a smaller input"
    if _NO_TYPE.search(text):
        return f"{path}: a value is of a type that browsers do not have ({text[:200]}); cast it to float32 in the model"
    return f"{path}: onnxruntime-web on {provider} failed ({text[:300] or 'it gave no reason'})"


def _with_weights(part: onnx.ModelProto, model: OnnxModel) -> bytes:
    """The bytes of a part with its weights inside: a browser cannot map files."""
    import onnx

    proto = onnx.ModelProto()
    proto.CopyFrom(part)
    for tensor in proto.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            array: Any = model.array(tensor)
            tensor.raw_data = np.ascontiguousarray(array).tobytes()
            tensor.ClearField("external_data")
            tensor.data_location = onnx.TensorProto.DEFAULT
    found: bytes = proto.SerializeToString()
    return found
