"""Describe a model and the files beside it: declared inputs, vocabulary, metadata that is missing."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstdiff.capturing.onnx_file import OnnxModel
from firstdiff.server.inference.wire import Axis, ModelFile, ValueType, Vocabulary

if TYPE_CHECKING:
    import onnx

METADATA = "metadata.json"
VOCABULARIES = ("vocab.json", "tokenizer.json")
_FIRST = 10


def files_of(model: OnnxModel) -> list[Path]:
    """The model, the files of its weights, and what else belongs to it."""
    named = {
        entry.value: None
        for tensor in model.proto.graph.initializer
        for entry in tensor.external_data
        if entry.key == "location" and entry.value != model.path.resolve().name
    }
    beside = [model.folder / name for name in (METADATA, *VOCABULARIES)]
    return [model.path, *(model.folder / name for name in named), *(file for file in beside if file.is_file())]


def describe_file(file: Path) -> ModelFile:
    with file.open("rb") as data:
        digest = hashlib.file_digest(data, "sha256").hexdigest()
    return ModelFile(file.name, file.stat().st_size, digest)


def value_types(items: Any) -> tuple[ValueType, ...]:
    return tuple(_value_type(item) for item in items)


def _value_type(item: onnx.ValueInfoProto) -> ValueType:
    from onnx import TensorProto

    kind = item.type.tensor_type
    name = TensorProto.DataType.Name(kind.elem_type).lower()
    dtype = {"float": "float32", "double": "float64", "undefined": "no tensor"}.get(name, name)
    if not kind.HasField("shape"):
        return ValueType(item.name, dtype, None)
    axes = [
        Axis(dim.dim_value, None) if dim.HasField("dim_value") else Axis(None, dim.dim_param or f"{item.name}.{index}")
        for index, dim in enumerate(kind.shape.dim)
    ]
    return ValueType(item.name, dtype, tuple(axes))


def vocabulary_of(files: list[Path]) -> Vocabulary | None:
    """The vocabulary beside a model; None where there is none or it cannot be read."""
    for file in files:
        if file.name in VOCABULARIES:
            try:
                entries = vocabulary_entries(json.loads(file.read_text(encoding="utf-8")))
            except (OSError, ValueError):
                return None
            return Vocabulary(file.name, len(entries), tuple(entries[:_FIRST])) if entries else None
    return None


def vocabulary_entries(held: Any) -> list[str]:
    """Entries in the order of their ids: of a list, of a mapping to ids, or of a tokenizer.json."""
    if isinstance(held, dict) and isinstance(held.get("model"), dict):
        held = held["model"].get("vocab")
    if isinstance(held, dict) and all(isinstance(number, int) for number in held.values()):
        return [str(entry) for entry, _ in sorted(held.items(), key=lambda item: item[1])]
    if isinstance(held, list):
        return [str(entry[0]) if isinstance(entry, list) and entry else str(entry) for entry in held]
    return []


def metadata_problems(model: OnnxModel, files: list[Path], vocabulary: Vocabulary | None) -> tuple[str, ...]:
    """List what the model or its metadata.json leaves out, or says differently."""
    proto, problems = model.proto, []
    if not proto.producer_name:
        problems.append("the model does not say what exported it (producer_name is empty)")
    for value in (*value_types(proto.graph.input), *value_types(proto.graph.output)):
        if value.axes is None and value.dtype != "no tensor":
            problems.append(f"the model does not say how many axes {value.name} has")
    file = next((file for file in files if file.name == METADATA), None)
    held: Any = {}
    if file is not None:
        try:
            held = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            problems.append(f"{METADATA} cannot be read ({error})")
    empty = [name for name, value in held.items() if value is None] if isinstance(held, dict) else []
    if empty:
        problems.append(f"{METADATA} has no value for {', '.join(empty)}")
    stated = held.get("vocab_size") if isinstance(held, dict) else None
    if vocabulary and isinstance(stated, int) and stated != vocabulary.size:
        problems.append(f"{vocabulary.file} has {vocabulary.size} entries, but {METADATA} says {stated}")
    if not any(file.name in VOCABULARIES for file in files):
        return tuple(problems)
    if vocabulary is None:
        problems.append("the vocabulary beside the model cannot be read; a JSON list or mapping was expected")
    else:
        problems += _logits_problem(proto, vocabulary)
    return tuple(problems)


def _logits_problem(proto: onnx.ModelProto, vocabulary: Vocabulary) -> list[str]:
    outputs = [item for item in value_types(proto.graph.output) if item.axes and item.dtype.startswith("float")]
    logits = next((item for item in outputs if "logit" in item.name), outputs[0] if len(outputs) == 1 else None)
    size = logits.axes[-1].size if logits and logits.axes else None
    if logits is None or size is None or size == vocabulary.size:
        return []
    return [f"{logits.name} has {size} entries along its last axis, but {vocabulary.file} has {vocabulary.size}"]
