"""Read an ONNX model without its weights, which onnxruntime maps from their files."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from firstdiff import dtypes
from firstdiff.errors import ReadError, UsageError

if TYPE_CHECKING:
    import onnx

# a tensor smaller than this stays in the model: the runtime reads shapes and axes from there
KEPT_INLINE = 1024
_INSTALL = "pip install 'firstdiff[onnx]'"
# field numbers of onnx.proto
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
_LENGTH_DELIMITED = 2


def need_onnx() -> None:
    """Import onnx and onnxruntime, or say how to get them."""
    for name in ("onnx", "onnxruntime"):
        try:
            __import__(name)
        except ImportError as error:
            raise UsageError(
                f"capturing ONNX models needs the package {name}, which is not there; {_INSTALL}"
            ) from error


@dataclass(frozen=True)
class OnnxModel:
    """A model file: its graph as a proto whose large weights are references into files.

    path: the file
    proto: weights of `KEPT_INLINE` bytes and more are external data, relative to the folder of the file
    """

    path: Path
    proto: onnx.ModelProto

    @property
    def folder(self) -> Path:
        return self.path.resolve().parent

    @cached_property
    def opsets(self) -> dict[str, int]:
        """Version of each operator set by domain; the standard one is ""."""
        return {item.domain if item.domain != "ai.onnx" else "": item.version for item in self.proto.opset_import}

    @cached_property
    def weights(self) -> dict[str, onnx.TensorProto]:
        return {tensor.name: tensor for tensor in self.proto.graph.initializer}

    def array(self, tensor: onnx.TensorProto) -> np.ndarray | None:
        """The values of a weight, mapped where they lie in a file; None for types that numpy has no word for."""
        return tensor_array(tensor, self.folder)


def open_model(path: str | Path) -> OnnxModel:
    """Read a model file; ReadError says what is wrong with it or with its external data."""
    model = _read_model(Path(path))
    _check_external_data(model)
    return model


def external_locations(path: Path) -> list[str]:
    """Names of the files that hold a model's weights, as the model gives them; they need not be there."""
    proto = _read_model(path).proto
    entries = (entry for tensor in proto.graph.initializer for entry in tensor.external_data)
    return sorted({entry.value for entry in entries if entry.key == "location"} - {path.resolve().name})


def _read_model(path: Path) -> OnnxModel:
    need_onnx()
    from google.protobuf.message import DecodeError

    try:
        with path.open("rb") as file:
            if file.read(8)[4:8] == b"ORTM":
                raise ReadError("is in ORT format; capture the .onnx file that it was made from", str(path))
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        proto = _without_weights(data, path.resolve().name)
    except (OSError, ValueError, DecodeError, IndexError) as error:
        reason = getattr(error, "strerror", None) or str(error) or "it is no protobuf"
        raise ReadError(f"cannot be read as an ONNX model ({reason})", str(path)) from error
    if not proto.opset_import or not (proto.graph.node or proto.graph.output):
        raise ReadError("cannot be read as an ONNX model (it has no graph)", str(path))
    model = OnnxModel(path, _inlined(proto))
    _constants_as_weights(model.proto.graph)
    return model


def tensor_array(tensor: onnx.TensorProto, folder: Path) -> np.ndarray | None:
    """The values of a tensor of a model that lies in `folder`."""
    from onnx import TensorProto, helper, numpy_helper

    name = TensorProto.DataType.Name(tensor.data_type).lower()
    name = {"float": "float32", "double": "float64"}.get(name, name.replace("float8e", "float8_e"))
    if not dtypes.known(name):
        return None
    dtype, shape = dtypes.from_name(name), tuple(tensor.dims)
    if tensor.data_location == TensorProto.EXTERNAL:
        where = {entry.key: entry.value for entry in tensor.external_data}
        file, offset = folder / where["location"], int(where.get("offset", 0))
        if not int(np.prod(shape, dtype=np.int64)):
            return np.zeros(shape, dtype)
        return np.memmap(file, dtype, "r", offset, shape)
    if tensor.raw_data:
        return np.frombuffer(tensor.raw_data, dtype).reshape(shape)
    if dtypes.is_extended(dtype):
        held = np.array(tensor.int32_data, np.uint32).astype(f"u{dtype.itemsize}")
        return held.view(dtype).reshape(shape)
    array = numpy_helper.to_array(tensor)
    assert array.dtype == helper.tensor_dtype_to_np_dtype(tensor.data_type), "types that numpy knows stay what they are"
    return array


def _without_weights(data: Any, file_name: str) -> onnx.ModelProto:
    """Parse a model; large weights become external data that lies in the model file itself."""
    import onnx

    kept: list[bytes] = []
    for number, start, begin, end in _fields(data, 0, len(data)):
        if number != _GRAPH:
            kept.append(data[start:end])
            continue
        graph = [
            _tensor(data, s, b, e, file_name) if n == _INITIALIZER else data[s:e]
            for n, s, b, e in _fields(data, begin, end)
        ]
        body = b"".join(graph)
        kept.append(_tag(_GRAPH) + _varint(len(body)) + body)
    return onnx.load_model_from_string(b"".join(kept))


def _tensor(data: Any, start: int, begin: int, end: int, file_name: str) -> bytes:
    """An initializer as it is, or without its bytes and with their place in the file."""
    import onnx

    fields = list(_fields(data, begin, end))
    raw = next(((b, e) for number, _, b, e in fields if number == _RAW_DATA and e - b >= KEPT_INLINE), None)
    if raw is None:
        return bytes(data[start:end])
    rest = b"".join(data[s:e] for number, s, _, e in fields if number != _RAW_DATA)
    tensor = onnx.TensorProto.FromString(rest)
    if tensor.data_type == onnx.TensorProto.STRING:
        return bytes(data[start:end])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", file_name), ("offset", raw[0]), ("length", raw[1] - raw[0])):
        tensor.external_data.add(key=key, value=str(value))
    body: bytes = tensor.SerializeToString()
    return _tag(_INITIALIZER) + _varint(len(body)) + body


def _fields(data: Any, position: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Number, start, and begin and end of the contents of each field of a message."""
    while position < end:
        start = position
        key, position = _read_varint(data, position)
        kind = key & 7
        begin = position
        if kind == _LENGTH_DELIMITED:
            size, begin = _read_varint(data, position)
            position = begin + size
        elif kind == 0:
            _, position = _read_varint(data, position)
        elif kind in (1, 5):
            position += 8 if kind == 1 else 4
        else:
            raise ValueError("it is no protobuf")
        if position > end:
            raise ValueError("it ends too early, as a download that was cut off")
        yield key >> 3, start, begin, position


def _read_varint(data: Any, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("it is no protobuf")


def _tag(number: int) -> bytes:
    return _varint(number << 3 | _LENGTH_DELIMITED)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _inlined(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Calls of functions that the model defines itself, replaced by their bodies."""
    if not proto.functions:
        return proto
    from onnx import inliner

    return inliner.inline_local_functions(proto)


def _constants_as_weights(graph: onnx.GraphProto) -> None:
    """Constant nodes hold weights as well; the order of nodes does not change."""
    from onnx import helper

    kept = []
    for node in graph.node:
        value = next((item for item in node.attribute if node.op_type == "Constant"), None)
        if value is None or value.name not in ("value", "value_float", "value_floats", "value_int", "value_ints"):
            kept.append(node)
            continue
        tensor = graph.initializer.add()
        if value.name == "value":
            tensor.CopyFrom(value.t)
        else:
            held = np.array(helper.get_attribute_value(value), np.float32 if "float" in value.name else np.int64)
            tensor.data_type = helper.np_dtype_to_tensor_dtype(held.dtype)
            tensor.dims.extend(held.shape)
            tensor.raw_data = held.tobytes()
        tensor.name = node.output[0]
    if len(kept) < len(graph.node):
        kept = [type(node).FromString(node.SerializeToString()) for node in kept]
        del graph.node[:]
        graph.node.extend(kept)


def _check_external_data(model: OnnxModel) -> None:
    """Every file that holds weights must be there and long enough."""
    ends: dict[str, int] = {}
    for tensor in model.weights.values():
        where = {entry.key: entry.value for entry in tensor.external_data}
        if "location" in where:
            end = int(where.get("offset", 0)) + int(where.get("length", 0))
            ends[where["location"]] = max(end, ends.get(where["location"], 0))
    for location, end in ends.items():
        file = model.folder / location
        if not file.is_file():
            raise ReadError(
                f"its weights are in {location}, which is not beside it; copy that file into {model.folder}",
                str(model.path),
            )
        if (size := file.stat().st_size) < end:
            raise ReadError(
                f"its weights in {location} should reach to byte {end:,}, but that file has {size:,}; copy it again",
                str(model.path),
            )
