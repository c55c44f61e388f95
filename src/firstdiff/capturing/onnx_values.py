"""Write the values of an ONNX model into a trace, whichever runtime computed them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, final

import numpy as np

from firstdiff import dtypes
from firstdiff.capturing.module_tree import SMALL_BYTES, TOTAL_BYTES
from firstdiff.capturing.onnx_file import OnnxModel
from firstdiff.capturing.onnx_graph import Part, Value, attributes_of, has_hidden_values, torch_origin
from firstdiff.capturing.session import Place, Session

Params = Literal["auto", "small", "all", "none"]

# times eps of the largest value: a spread below it is made by rounding alone
_CONSTANT = 64
# compute float16 in float32, from node to node, and round only what is given out
_WIDENING = ("cpu", "CPUExecutionProvider", "wasm")


@final
class ValueRecorder:
    """Records inputs, weights and values with op kinds, attributes and where each input came from."""

    def __init__(self, model: OnnxModel, session: Session, params: Params, provider: str) -> None:
        self._model = model
        self._widens = provider in _WIDENING
        self._session = session
        self._limit = _largest_recorded(model, params)
        self._seq: dict[str, int] = {}
        self._params: set[str] = set()
        self._types: dict[str, np.dtype] = {}
        self._graph_name = model.proto.graph.name or "graph"

    def record_inputs(self, inputs: Mapping[str, np.ndarray]) -> None:
        for name, array in inputs.items():
            self._seq[name] = self._session.emit(Place(name), "input", array)

    def record_params(self, part: Part) -> None:
        """Record the weights of a part before what is computed with them, each once."""
        for tensor in part.model.graph.initializer:
            if tensor.name in self._params:
                continue
            self._params.add(tensor.name)
            array = self._model.array(tensor)
            if array is None:
                self._session.skip(tensor.name, "weights of types that numpy does not have")
            elif array.nbytes <= self._limit and self._session.wants(tensor.name, "param"):
                self._seq[tensor.name] = self._session.emit(Place(tensor.name), "param", array)

    def record(self, value: Value, array: np.ndarray | None, kind: str) -> None:
        """Record what a node gave; `kind` names the type of a value that is no tensor of numbers."""
        if has_hidden_values(value.node) and value.output == 0:
            self._session.skip(
                value.name, f"what runs inside a {value.node.op_type} is not recorded, only what it gives"
            )
        if not self._session.wants(value.name, "output"):
            return
        if array is None:
            self._session.skip(value.name, f"{kind} is no tensor of numbers")
            return
        known = {slot: name for slot, name in value.inputs.items() if name in self._seq}
        weights = {slot: name for slot, name in value.inputs.items() if name in self._params}
        domain = value.node.domain
        attrs: dict[str, Any] = {
            **attributes_of(value.node),
            "opset": self._model.opsets.get("" if domain == "ai.onnx" else domain, 1),
            "node": value.node.name,
            **({"output": value.output, "outputs": outputs} if (outputs := len(value.node.output)) > 1 else {}),
            **({"inputs": list(known)} if known else {}),
            **({"params": weights} if weights else {}),
            **torch_origin(value.node),
            **({"dtype_was": was} if (was := self._computed_as(value, array.dtype)) else {}),
        }
        op = value.node.op_type if domain in ("", "ai.onnx") else f"{domain}:{value.node.op_type}"
        place = Place(value.name, op=op, parent=value.inside[-1] if value.inside else self._graph_name)
        sources = tuple(self._seq[name] for name in known.values())
        self._seq[value.name] = self._session.emit(place, "output", array, attrs=attrs, sources=sources)

    def _computed_as(self, value: Value, dtype: np.dtype) -> str | None:
        """Return the type in which a value was computed, if it is another than that in which it is given out."""
        self._types[value.name] = dtype
        if value.node.op_type == "Cast":
            was = self._types.get(value.node.input[0], dtype)
            return dtypes.name_of(was) if dtypes.eps_of(was) > dtypes.eps_of(dtype) > 0 else None
        return "float32" if self._widens and dtype == np.float16 else None

    def record_optimized(self, name: str, exposed: np.ndarray, optimized: np.ndarray) -> float | None:
        """Record an output of the untouched, optimised model, and return its distance from the exposed one's."""
        if not self._session.wants(name, "output"):
            return None
        sources = (self._seq[name],) if name in self._seq else ()
        self._session.emit(Place(name), "output", optimized, slot="optimized", sources=sources)
        return distance(exposed, optimized)


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """The greatest difference, in standard deviations of `one`; infinite where shapes or non-finite values differ.

    Where all values are one but for rounding, it is told as a share of the largest.
    """
    if one.shape != other.shape:
        return float("inf")
    first, second = dtypes.doubles(one), dtypes.doubles(other)
    with np.errstate(invalid="ignore"):
        differences = np.where((first == second) | (np.isnan(first) & np.isnan(second)), 0.0, np.abs(first - second))
    if not differences.size or not differences.any():
        return 0.0
    finite = first[np.isfinite(first)]
    spread = float(np.std(finite)) if finite.size else 0.0
    worst = float(np.max(differences))
    if not np.isfinite(worst):
        return float("inf")
    largest = float(np.max(np.abs(finite), initial=0.0))
    scale = spread if spread > _CONSTANT * dtypes.eps_of(one.dtype) * largest else largest
    return worst / scale if scale else worst


def _largest_recorded(model: OnnxModel, params: Params) -> int:
    """Bytes up to which a weight is recorded."""
    if params in ("none", "all"):
        return -1 if params == "none" else 1 << 62
    sizes = [array.nbytes for tensor in model.weights.values() if (array := model.array(tensor)) is not None]
    return 1 << 62 if params == "auto" and sum(sizes) <= TOTAL_BYTES else SMALL_BYTES
