"""Create onnxruntime sessions, and convert their inputs and outputs."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from firstdiff import dtypes
from firstdiff.capturing.onnx_file import OnnxModel
from firstdiff.capturing.recording import as_array
from firstdiff.errors import ReadError, UsageError, did_you_mean

if TYPE_CHECKING:
    import onnx
    import onnxruntime

_NO_KERNEL = re.compile(r"Could not find an implementation for (\S+?)\((\d+)\) node with name '([^']*)'")
_NO_SCHEMA = re.compile(r"([\w.]+:\w+)\(-?\d+\) is not a registered function/op|No Op registered for (\w+)")
_STATUS = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_FOLDER_KEY = "session.model_external_initializers_file_folder_path"
_ERRORS_ONLY = 3
_POSITION = re.compile(r"arg(\d+)")


def provider_named(name: str) -> str:
    """`CPUExecutionProvider` for `cpu`; UsageError lists those that this onnxruntime has."""
    import onnxruntime

    known = onnxruntime.get_available_providers()
    short = {provider.removesuffix("ExecutionProvider").lower(): provider for provider in known}
    found = name if name in known else short.get(name.lower())
    if found is None:
        raise UsageError(
            f"onnxruntime {onnxruntime.__version__} has no provider {name!r}{did_you_mean(name.lower(), short)}; "
            f"it has {', '.join(sorted(short))}"
        )
    return found


def make_session(
    model: OnnxModel, provider: str, *, part: onnx.ModelProto | None = None, optimize: bool = False
) -> onnxruntime.InferenceSession:
    """A session of the whole model file, or of a part of it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
    options.log_severity_level = _ERRORS_ONLY + 1
    if part is not None:
        options.add_session_config_entry(_FOLDER_KEY, str(model.folder))
    source = str(model.path) if part is None else part.SerializeToString()
    try:
        return onnxruntime.InferenceSession(source, options, providers=[provider])
    except Exception as error:  # the runtime has an exception for every status
        raise ReadError(_load_error(error, provider), str(model.path)) from error


def run_session(
    session: onnxruntime.InferenceSession, names: Sequence[str], feeds: Mapping[str, Any], path: Path
) -> list[onnxruntime.OrtValue]:
    """Run a session on values of the runtime; ReadError says which node failed."""
    try:
        return session.run_with_ort_values(list(names), dict(feeds))  # type: ignore[no-any-return]
    except Exception as error:
        raise ReadError(f"onnxruntime cannot run it ({_first_line(error)})", str(path)) from error


def array_of(value: onnxruntime.OrtValue) -> np.ndarray | None:
    """The values where the runtime has them, without a copy; None where they are no tensor of numbers."""
    if not value.has_value() or not value.is_tensor():
        return None
    dtype = _dtype_of(value.element_type())
    if dtype is None:
        return None
    shape, size = tuple(value.shape()), value.tensor_size_in_bytes()
    if not size:
        return np.zeros(shape, dtype)
    memory: Any = (ctypes.c_char * size).from_address(value.data_ptr())
    memory.owner = value  # as long as the array is there, so is the memory
    array = np.frombuffer(memory, dtype).reshape(shape)
    array.flags.writeable = False
    return array


def value_of(array: np.ndarray) -> onnxruntime.OrtValue:
    """An array as a value of the runtime."""
    import onnxruntime
    from onnx import TensorProto

    if dtypes.is_extended(array.dtype):
        kind = TensorProto.DataType.Value(array.dtype.name.upper().replace("FLOAT8_E", "FLOAT8E"))
        bits = np.asarray(array, order="C").view(dtypes.bits_of(array.dtype))
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, kind)
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.asarray(array, order="C"))


def type_of(value: onnxruntime.OrtValue) -> onnx.TypeProto:
    """The type of a value, as a graph says it; any size along each axis."""
    from onnx import TypeProto

    found = TypeProto()
    if value.is_tensor():
        found.tensor_type.elem_type = value.element_type()
        for _ in value.shape():
            found.tensor_type.shape.dim.add()
    else:
        inner = re.findall(r"tensor\((\w+)\)", value.data_type())
        found.sequence_type.elem_type.tensor_type.elem_type = _elem_type(inner[0] if inner else "float")
    return found


def read_inputs(path: str | Path) -> dict[str, np.ndarray]:
    """Arrays of an .npz by name."""
    try:
        held = np.load(path, allow_pickle=False)
        if isinstance(held, np.ndarray):
            raise ReadError("holds one array without a name; save with np.savez, by the names of inputs", str(path))
        with held:
            return {name: held[name] for name in held.files}
    except (OSError, ValueError, TypeError, BadZipFile, EOFError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ReadError(f"cannot be read as .npz ({reason})", str(path)) from error


def check_inputs(model: OnnxModel, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The inputs of a model by its names for them; UsageError lists what it takes."""
    wanted = {item.name: item for item in model.proto.graph.input if item.name not in model.weights}
    optional = {item.name: item for item in model.proto.graph.input if item.name in model.weights}
    taken = ", ".join(_described(item) for item in wanted.values()) or "nothing"
    names = list(wanted)
    found: dict[str, np.ndarray] = {}
    for given, value in inputs.items():
        place = _POSITION.fullmatch(given)
        name = names[int(place[1])] if place and given not in wanted and int(place[1]) < len(names) else given
        if name not in wanted and name not in optional:
            raise UsageError(f"{model.path} has no input {given!r}{did_you_mean(given, names)}; it takes {taken}")
        found[name] = as_array(given, value)
        _check_input(model.path, (wanted | optional)[name], found[name], taken)
    missing = [name for name in names if name not in found]
    if missing:
        raise UsageError(f"{model.path} also needs {', '.join(missing)}; it takes {taken}")
    return found


def as_taken(model: OnnxModel, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Inputs of a model; real numbers in the type that it takes, where a converter has made that another one."""
    kinds = {item.name: _dtype_of(item.type.tensor_type.elem_type) for item in model.proto.graph.input}
    return {name: _in_type(array, kinds.get(name)) for name, array in inputs.items()}


def _in_type(array: np.ndarray, wanted: np.dtype | None) -> np.ndarray:
    real = wanted is not None and dtypes.kind_of(wanted) == dtypes.kind_of(array.dtype) == "float"
    return array.astype(wanted) if real else array


def _check_input(path: Path, item: onnx.ValueInfoProto, array: np.ndarray, taken: str) -> None:
    kind = item.type.tensor_type
    if not item.type.HasField("tensor_type"):
        raise UsageError(f"{path} takes a {item.type.WhichOneof('value')} as {item.name}; only tensors can be given")
    wanted = _dtype_of(kind.elem_type)
    if wanted != array.dtype:
        raise UsageError(f"{path} was given {item.name} as {array.dtype}; it takes {taken}")
    # some exporters write -1 for an open axis
    sizes = [dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in kind.shape.dim]
    fits = len(sizes) == array.ndim and all(
        size is None or size == length for size, length in zip(sizes, array.shape, strict=False)
    )
    if kind.HasField("shape") and not fits:
        raise UsageError(f"{path} was given {item.name} of shape {list(array.shape)}; it takes {taken}")


def _described(item: onnx.ValueInfoProto) -> str:
    kind = item.type.tensor_type
    dtype = _dtype_of(kind.elem_type)
    sizes = [str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in kind.shape.dim]
    shape = f" [{', '.join(sizes)}]" if kind.HasField("shape") else ""
    return f"{item.name} ({dtype or 'no numbers'}{shape})"


def _dtype_of(elem_type: int) -> np.dtype | None:
    from onnx import TensorProto

    name = TensorProto.DataType.Name(elem_type).lower()
    name = {"float": "float32", "double": "float64"}.get(name, name.replace("float8e", "float8_e"))
    return dtypes.from_name(name) if dtypes.known(name) else None


def _elem_type(name: str) -> int:
    from onnx import TensorProto

    return int(TensorProto.DataType.Value(name.upper()))


def _load_error(error: Exception, provider: str) -> str:
    text = str(error)
    if found := _NO_KERNEL.search(text):
        op, opset, node = found.groups()
        return (
            f"{provider} of onnxruntime has no kernel for {op} of opset {opset} (node {node!r}); try another --provider"
        )
    if found := _NO_SCHEMA.search(text):
        op = found[1] or found[2]
        return f"onnxruntime does not know the operator {op}; it runs only with the library that defines it"
    return f"onnxruntime cannot load it ({_first_line(error)})"


def _first_line(error: Exception) -> str:
    text = _STATUS.sub("", str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__)
    return text if len(text) < 300 else f"{text[:300]}…"
