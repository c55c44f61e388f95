"""Split an ONNX model into parts that output every value they compute, and describe each value."""

from __future__ import annotations

import re
from ast import literal_eval
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Protocol, final

import numpy as np

from firstdiff.capturing.onnx_file import OnnxModel

if TYPE_CHECKING:
    import onnx

PART_BYTES = 256 << 20
_SHOWN_TENSOR = 64  # elements of a tensor among the attributes
_UNKNOWN_BYTES = 1 << 20
_METADATA = "pkg.torch.onnx."
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a graph.

    name: as the graph has it
    node: what computes it
    output: which of the node's outputs it is
    inputs: names by slot; optional ones that are left out have no slot
    inside: names of the If nodes around it
    """

    name: str
    node: onnx.NodeProto
    output: int
    inputs: dict[str, str]
    inside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes that run together.

    model: gives `values`, and takes `feeds`; its weights are external data as in `OnnxModel`
    feeds: values of earlier parts and inputs of the model
    values: everything it computes, in order
    kept: those of its values and feeds that later parts need
    done: share of the model's nodes that have run after it
    """

    model: onnx.ModelProto
    feeds: tuple[str, ...]
    values: tuple[Value, ...]
    kept: frozenset[str]
    done: float


class Computed(Protocol):
    """Results of the parts that have run."""

    def type_of(self, name: str) -> onnx.TypeProto: ...

    def is_true(self, name: str) -> bool: ...


@dataclass(slots=True)
class _Step:
    node: onnx.NodeProto
    inside: tuple[str, ...] = ()
    branch_of: onnx.NodeProto | None = None


@dataclass(slots=True)
class _Pending:
    steps: list[_Step] = field(default_factory=list)
    size: int = 0


@final
class Parts:
    """Goes through a model part by part; run each before asking for the next.

    An If is replaced by the branch that it takes, so what is computed inside becomes ordinary values.

    sizes: bytes of values, as far as they are known
    part_bytes: about how much the values of a part may take together
    """

    def __init__(self, model: OnnxModel, sizes: Mapping[str, int] | None = None, part_bytes: int = PART_BYTES) -> None:
        self._model = model
        self._sizes = sizes or {}
        self._part_bytes = part_bytes
        self._weights = dict(model.weights)
        self._left = deque(_Step(node) for node in _sorted(model.proto.graph.node))
        self._total = len(self._left)
        self._outputs = {output.name for output in model.proto.graph.output}
        self._names = {name for node in model.proto.graph.node for name in node.output}
        self._names |= {item.name for item in model.proto.graph.input} | self._weights.keys()

    @property
    def weights(self) -> dict[str, onnx.TensorProto]:
        """Weights by name, those inside branches that were taken included."""
        return self._weights

    def run(self, computed: Computed) -> Iterator[Part]:
        """Give the parts; `computed` answers for what the earlier ones gave."""
        pending = _Pending()
        while self._left:
            step = self._left[0]
            if step.node.op_type == "If" and step.branch_of is None:
                if pending.steps:  # the condition must have been computed
                    yield self._part(pending, computed)
                    pending = _Pending()
                self._left.popleft()
                self._left.extendleft(reversed(self._branch(step, computed)))
                continue
            size = sum(self._sizes.get(name, _UNKNOWN_BYTES) for name in step.node.output if name)
            if pending.steps and pending.size + size > self._part_bytes:
                yield self._part(pending, computed)
                pending = _Pending()
            pending.steps.append(self._left.popleft())
            pending.size += size
        if pending.steps:
            yield self._part(pending, computed)

    def _branch(self, step: _Step, computed: Computed) -> list[_Step]:
        """The nodes of the branch that an If takes, and one that hands on each of its results."""
        from onnx import helper

        node = step.node
        condition = node.input[0]
        if condition in self._weights:
            array = self._model.array(self._weights[condition])
            taken = bool(array is not None and array.reshape(-1)[0])
        else:
            taken = computed.is_true(condition)
        graph = next(item.g for item in node.attribute if item.name == ("then_branch" if taken else "else_branch"))
        label = node.name or next(name for name in node.output if name)
        own = [tensor.name for tensor in graph.initializer] + [name for inner in graph.node for name in inner.output]
        renamed = {name: f"{label}/{name}" for name in own if name in self._names}
        self._names.update(renamed.get(name, name) for name in own)
        for tensor in graph.initializer:
            copy = type(tensor)()
            copy.CopyFrom(tensor)
            copy.name = renamed.get(tensor.name, tensor.name)
            self._weights[copy.name] = copy
        inside = (*step.inside, label)
        steps = [_Step(_with_names(inner, renamed), inside) for inner in _sorted(graph.node)]
        for result, name in zip(graph.output, node.output, strict=True):
            # without a name: an If of several results would give one name to several nodes
            hand_on = helper.make_node("Identity", [renamed.get(result.name, result.name)], [name])
            steps.append(_Step(hand_on, step.inside, branch_of=node))
        return steps

    def _part(self, pending: _Pending, computed: Computed) -> Part:
        import onnx

        steps = pending.steps
        used = {name for step in steps for name in _used(step.node)}
        made = {name for step in steps for name in step.node.output if name}
        feeds = tuple(
            name for name in dict.fromkeys(_in_order(steps)) if name not in made and name not in self._weights
        )
        proto = onnx.ModelProto(ir_version=self._model.proto.ir_version)
        proto.opset_import.extend(self._model.proto.opset_import)
        graph = proto.graph
        graph.name = "part"
        graph.node.extend(_stripped(step.node) for step in steps)
        graph.initializer.extend(tensor for name, tensor in self._weights.items() if name in used)
        for name in feeds:
            graph.input.add(name=name).type.CopyFrom(computed.type_of(name))
        values = [_values(step) for step in steps]
        for value in (value for several in values for value in several):
            graph.output.add(name=value.name)
        later = {name for step in self._left for name in _used(step.node)}
        return Part(
            proto,
            feeds,
            tuple(value for several in values for value in several),
            frozenset((later | self._outputs) & (made | set(feeds))),
            1 - len(self._left) / max(self._total, len(self._left), 1),
        )


def value_bytes(model: OnnxModel, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Bytes of values as far as shape inference tells them; `shapes` are those of the inputs."""
    import onnx
    from onnx import helper

    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    for item in proto.graph.input:
        if item.name in shapes:
            kind = item.type.tensor_type
            item.CopyFrom(helper.make_tensor_value_info(item.name, kind.elem_type, shapes[item.name]))
    del proto.graph.value_info[:]  # what an exporter says may hold for other shapes
    try:
        proto = onnx.shape_inference.infer_shapes(proto, data_prop=True)
    except Exception:  # only an estimate: what cannot be inferred is taken as unknown
        return {}
    sizes: dict[str, int] = {}
    for item in (*proto.graph.value_info, *proto.graph.output):
        dims = item.type.tensor_type.shape.dim
        if item.type.tensor_type.HasField("shape") and all(dim.HasField("dim_value") for dim in dims):
            count = int(np.prod([dim.dim_value for dim in dims], dtype=np.int64))
            sizes[item.name] = count * _width(item.type.tensor_type.elem_type)
    return sizes


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of a node as JSON; graphs and large tensors are left out."""
    import onnx

    found: dict[str, Any] = {}
    for item in node.attribute:
        if item.type == onnx.AttributeProto.TENSOR:
            array = onnx.numpy_helper.to_array(item.t)
            if array.size <= _SHOWN_TENSOR and array.dtype.kind in "fiub":
                found[item.name] = {
                    "dtype": array.dtype.name,
                    "shape": list(array.shape),
                    "values": array.ravel().tolist(),
                }
        elif item.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS, onnx.AttributeProto.TYPE_PROTO):
            continue
        else:
            value = onnx.helper.get_attribute_value(item)
            found[item.name] = (
                [_plain(part) for part in value]
                if isinstance(value, Iterable) and not isinstance(value, bytes)
                else _plain(value)
            )
    return found


def torch_origin(node: onnx.NodeProto) -> dict[str, str]:
    """The torch module and source line that an exporter noted for a node."""
    noted = {item.key: item.value for item in node.metadata_props if item.key.startswith(_METADATA)}
    found: dict[str, str] = {}
    scopes = scopes_of(node)
    if scopes:
        found["module"] = scopes[-1]
    frames = _FRAME.findall(noted.get(f"{_METADATA}stack_trace", ""))
    if frames:
        file, line = frames[-1]
        found["source"] = f"{PurePath(file).name}:{line}"
    return found


def scopes_of(node: onnx.NodeProto) -> tuple[str, ...]:
    """The torch modules around a node, outermost first: as noted, or as the old exporter puts them into names."""
    noted = _noted_scopes(node)
    if noted is not None:
        return tuple(scope for scope in _strings(noted)[:-1] if scope)
    parts = node.name.split("/")[1:-1] if node.name.startswith("/") else []
    return tuple(".".join(parts[: count + 1]) for count in range(len(parts)))


def is_noted(node: onnx.NodeProto) -> bool:
    """True for a node of which the exporter told where it comes from; converters make others."""
    return _noted_scopes(node) is not None or node.name.startswith("/")


def _noted_scopes(node: onnx.NodeProto) -> str | None:
    return next((item.value for item in node.metadata_props if item.key == f"{_METADATA}name_scopes"), None)


def has_hidden_values(node: onnx.NodeProto) -> bool:
    """True for loops, whose bodies run many times and are not opened."""
    import onnx

    return node.op_type != "If" and any(item.type == onnx.AttributeProto.GRAPH for item in node.attribute)


def _values(step: _Step) -> list[Value]:
    node = step.node
    inputs = {str(slot): name for slot, name in enumerate(node.input) if name}
    free = [name for name in _used(node) if name not in inputs.values()]
    inputs |= {f"body.{slot}": name for slot, name in enumerate(free)}
    shown = step.branch_of or node
    return [Value(name, shown, slot, inputs, step.inside) for slot, name in enumerate(node.output) if name]


def _in_order(steps: Iterable[_Step]) -> Iterator[str]:
    for step in steps:
        yield from _used(step.node)


def _sorted(nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Put nodes after those that they read from, as runtimes do; tools that insert casts may append them."""
    makers = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    found: list[onnx.NodeProto] = []
    begun: set[int] = set()
    done: set[int] = set()
    for place in range(len(nodes)):
        waiting = [place]
        while waiting:
            at = waiting[-1]
            begun.add(at)
            before = [makers[name] for name in _used(nodes[at]) if name in makers and makers[name] not in begun]
            if before and at not in done:
                waiting += reversed(before)
                continue
            if at not in done:
                done.add(at)
                found.append(nodes[at])
            waiting.pop()
    return found


def _used(node: onnx.NodeProto) -> list[str]:
    """Names a node reads, those that its inner graphs take from outside included."""
    names = [name for name in node.input if name]
    for item in node.attribute:
        for graph in (item.g, *item.graphs) if item.g.node or item.graphs or item.g.output else ():
            names += _free(graph)
    return list(dict.fromkeys(names))


def _free(graph: onnx.GraphProto) -> list[str]:
    own = {item.name for item in graph.input} | {item.name for item in graph.initializer}
    found: list[str] = []
    for node in graph.node:
        found += [name for name in _used(node) if name not in own]
        own.update(node.output)
    return found + [item.name for item in graph.output if item.name not in own]


def _with_names(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    copy = type(node)()
    copy.CopyFrom(node)
    if names:
        _rename(copy, names)
    return copy


def _rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    for listed in (node.input, node.output):
        listed[:] = [names.get(name, name) for name in listed]
    for item in node.attribute:
        for graph in (item.g, *item.graphs):
            for inner in graph.node:
                _rename(inner, names)
            for output in graph.output:
                output.name = names.get(output.name, output.name)


def _stripped(node: onnx.NodeProto) -> onnx.NodeProto:
    """Without texts about where it comes from, which are most of an exported model's bytes."""
    copy = type(node)()
    copy.CopyFrom(node)
    del copy.metadata_props[:]
    copy.doc_string = ""
    return copy


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    # 1e-05 is stored in 32 bits; as 64 they would read 9.999999747378752e-06
    return float(str(np.float32(value))) if isinstance(value, float) else value


def _strings(text: str | None) -> list[str]:
    try:
        found = literal_eval(text or "[]")
    except (ValueError, SyntaxError):
        return []
    return [item for item in found if isinstance(item, str)] if isinstance(found, list) else []


def _width(elem_type: int) -> int:
    from onnx import helper

    try:
        return helper.tensor_dtype_to_np_dtype(elem_type).itemsize
    except KeyError:
        return 4
