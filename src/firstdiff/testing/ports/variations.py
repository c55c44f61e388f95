"""Healthy variations: one model run in two ways, or recorded in two ways. No comparison may raise an alarm."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from firstdiff.capturing import capture
from firstdiff.readers import open_trace
from firstdiff.testing.ports.port import Port
from firstdiff.testing.zoo.architectures import Built
from firstdiff.testing.zoo.healthy import exported, without_renumbered
from firstdiff.trace import ArraySource, Tensor, Trace

Side: TypeAlias = Trace | Path
Call: TypeAlias = Callable[[nn.Module], Any]
_PADDING = 3
_RENAMED = (
    (r"encoder\.layer\.(\d+)", r"blocks.\1"),
    (r"(^|\.)layers\.(\d+)", r"\1blk.\2"),
    (r"albert_layer_groups\.(\d+)\.albert_layers\.(\d+)", r"group\1.inner\2"),
    (r"attention\.self\b", "attn"),
    (r"self_attn\b", "attn"),
    (r"intermediate\.dense|fc1", "mlp.up"),
)


@dataclass(frozen=True, slots=True)
class Way:
    """A way of running or recording a model once more.

    sides: makes both sides
    families: those it makes sense for
    partial: one side has only a part of some tensors, which the user knows and allows
    """

    sides: Callable[[Port, Path], tuple[Side, Side]]
    families: tuple[str, ...]
    partial: bool = False


def _captured(model: nn.Module, path: Path, call: Call, **options: Any) -> Trace:
    with torch.no_grad(), capture(model, path, **options):
        call(model)
    return open_trace(path)


def _twice(port: Port, folder: Path) -> tuple[Trace, Trace]:
    """The same run, captured once, as both sides."""
    built = port.build()
    trace = _captured(built.model, folder / "reference", lambda model: port.call(model, built.inputs))
    return trace, trace


def _two_calls(built: Built, folder: Path, one: Call, other: Call) -> tuple[Side, Side]:
    return _captured(built.model, folder / "reference", one), _captured(built.model, folder / "candidate", other)


def _ids(built: Built) -> torch.Tensor:
    found: torch.Tensor = next(iter(built.inputs.values()))
    return found


def _in_parts(ids: torch.Tensor, sizes: list[int]) -> Call:
    """Tokens part by part, with transformers' cache."""

    def call(model: nn.Module) -> None:
        transformers: Any = import_module("transformers")
        cache = transformers.DynamicCache()
        for part in torch.split(ids, sizes, dim=1):
            model(part, past_key_values=cache, use_cache=True)

    return call


def _cached_steps(port: Port, folder: Path) -> tuple[Side, Side]:
    built = port.build()
    ids = _ids(built)
    sizes = [ids.shape[1] - 4, 1, 1, 1, 1]
    return _two_calls(built, folder, lambda model: model(ids), _in_parts(ids, sizes))


def _chunked_prefill(port: Port, folder: Path) -> tuple[Side, Side]:
    built = port.build()
    ids = _ids(built)
    sizes = [4, 4, ids.shape[1] - 8]
    return _two_calls(built, folder, lambda model: model(ids), _in_parts(ids, sizes))


def _steps_from_one(port: Port, folder: Path) -> tuple[Side, Side]:
    built = port.build()
    ids = _ids(built)
    trace = _captured(built.model, folder / "reference", _in_parts(ids, [ids.shape[1] - 3, 1, 1, 1]))
    return trace, _recorded_anew(trace, lambda tensor: {"step": tensor.record.step + 1})


def _row_of_a_batch(port: Port, folder: Path) -> tuple[Side, Side]:
    built = port.build()
    alone = {name: values[:1] for name, values in built.inputs.items()}
    return _two_calls(built, folder, lambda model: model(**alone), lambda model: model(**built.inputs))


def _padding_side(port: Port, folder: Path) -> tuple[Side, Side]:
    built = port.build()
    ids = _ids(built)

    def padded(pad: tuple[int, int]) -> Call:
        given = nn.functional.pad(ids, pad)
        mask = nn.functional.pad(torch.ones_like(ids), pad)
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        return lambda model: model(given, attention_mask=mask, position_ids=positions, use_cache=False)

    return _two_calls(built, folder, padded((0, _PADDING)), padded((_PADDING, 0)))


def _attention_kernels(port: Port, folder: Path) -> tuple[Side, Side]:
    def side(kind: str) -> Trace:
        built = port.build()
        built.model.set_attn_implementation(kind)  # type: ignore[operator]
        return _captured(built.model, folder / kind, lambda model: port.call(model, built.inputs))

    return side("eager"), side("sdpa")


def _masks(first: str, second: str) -> Callable[[Port, Path], tuple[Side, Side]]:
    def sides(port: Port, folder: Path) -> tuple[Side, Side]:
        built = port.build()
        ids = _ids(built)

        def call(kind: str) -> Call:
            mask = _causal_mask(ids, kind)
            return lambda model: model(ids, attention_mask=mask, use_cache=False)

        return _two_calls(built, folder, call(first), call(second))

    return sides


def _causal_mask(ids: torch.Tensor, kind: str) -> torch.Tensor:
    rows, tokens = ids.shape
    hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu(1).expand(rows, 1, tokens, tokens)
    if kind == "bool":
        return ~hidden
    fill = float("-inf") if kind == "-inf" else torch.finfo(torch.float32).min
    mask = torch.zeros(rows, 1, tokens, tokens).masked_fill(hidden, fill)
    return mask[:1] if kind == "broadcast" else mask


def _double(port: Port, folder: Path) -> tuple[Side, Side]:
    built, double = port.build(), port.build()
    model = double.model.double()
    wide = {name: values.double() if values.is_floating_point() else values for name, values in double.inputs.items()}
    reference = _captured(built.model, folder / "reference", lambda model: port.call(model, built.inputs))
    return reference, _captured(model, folder / "candidate", lambda model: port.call(model, wide))


def _stored_as_half(port: Port, folder: Path) -> tuple[Side, Side]:
    built = port.build()

    def call(model: nn.Module) -> None:
        port.call(model, built.inputs)

    reference = _captured(built.model, folder / "reference", call)
    return reference, _captured(built.model, folder / "candidate", call, dtype="float16")


def _exported(port: Port, folder: Path) -> tuple[Side, Side]:
    built = port.build()
    reference = _captured(built.model, folder / "reference", lambda model: model(**built.inputs))
    program = exported(built)
    candidate = _captured(program.model, folder / "candidate", lambda model: model(**built.inputs))
    return without_renumbered(reference), without_renumbered(candidate)


def _other_names(port: Port, folder: Path) -> tuple[Side, Side]:
    trace, _ = _twice(port, folder)
    plain = replace(trace, tensors=tuple(tensor for tensor in trace if tensor.record.role == "output"))
    return trace, _recorded_anew(plain, lambda tensor: {"name": _renamed(tensor.name), "parent": None, "sources": ()})


def _renamed(name: str) -> str:
    for pattern, other in _RENAMED:
        name = re.sub(pattern, other, name)
    return name


def _more_recorded(port: Port, folder: Path) -> tuple[Side, Side]:
    trace, _ = _twice(port, folder)
    rng = np.random.default_rng(0)
    extra = []
    for index, tensor in enumerate(trace):
        if index % 5 == 0 and tensor.record.role == "output":
            record = replace(tensor.record, name=f"debug_{index}", op=None, parent=None, sources=(), attrs={})
            extra.append(replace(tensor, record=record, source=ArraySource(rng.standard_normal(7).astype(np.float32))))
        extra.append(tensor)
    return trace, replace(trace, tensors=tuple(extra))


def _less_recorded(port: Port, folder: Path) -> tuple[Side, Side]:
    """Every third output, and the last."""
    trace, _ = _twice(port, folder)
    outputs = [tensor for tensor in trace if tensor.record.role == "output"]
    kept = [tensor for index, tensor in enumerate(outputs) if index % 3 == 0 or index == len(outputs) - 1]
    bare = replace(trace, tensors=tuple(kept))
    return trace, _recorded_anew(bare, lambda _: {"op": None, "attrs": {}, "parent": None, "sources": ()})


def _numbered_files(port: Port, folder: Path) -> tuple[Side, Side]:
    trace, _ = _twice(port, folder)
    files = folder / "files"
    files.mkdir()
    modules = [tensor for tensor in trace if tensor.record.role == "output" and not _is_function(tensor)]
    for number, tensor in enumerate(modules):
        np.save(files / f"{number:03d}_{tensor.name.replace('.', '_')}.npy", tensor.values().read())
    return trace, files


def _is_function(tensor: Tensor) -> bool:
    return tensor.record.is_function


def _shards(port: Port, folder: Path) -> tuple[Side, Side]:
    """Two ranks: the inner layer of every feed-forward is split between them, the rest is on both."""
    trace, _ = _twice(port, folder)
    ranks = []
    for rank in range(2):
        for tensor in trace:
            if tensor.record.role != "output":
                continue
            values = tensor.values().read()
            if re.search(r"(c_fc|mlp\.act|dense_h_to_4h|fc1|activation_fn)$", tensor.name):
                values = np.ascontiguousarray(np.split(values, 2, axis=-1)[rank])
            record = replace(tensor.record, rank=rank, world=2)
            ranks.append(replace(tensor, record=record, source=ArraySource(values)))
    outputs = replace(trace, tensors=tuple(tensor for tensor in trace if tensor.record.role == "output"))
    return outputs, replace(trace, tensors=tuple(ranks))


def _time_first(port: Port, folder: Path) -> tuple[Side, Side]:
    """Return a trace and its module outputs with time before batch; convolutions keep their order."""
    trace, _ = _twice(port, folder)
    tensors = []
    for tensor in trace:
        values = tensor.values().read()
        first = tensor.record.role == "output" and tensor.record.slot == "0"  # last states have no axis of time
        if first and values.ndim == 3 and not _is_function(tensor):
            turned = values if tensor.record.op == "Conv1d" else values.swapaxes(0, 1)
            tensors.append(replace(tensor, source=ArraySource(np.ascontiguousarray(turned))))
    return trace, replace(trace, tensors=tuple(tensors))


def _recorded_anew(trace: Trace, changes: Callable[[Tensor], dict[str, Any]]) -> Trace:
    """The same values, with other records."""
    tensors = (replace(tensor, record=replace(tensor.record, **changes(tensor))) for tensor in trace)
    return replace(trace, tensors=tuple(tensors))


WAYS: dict[str, Way] = {
    "full forward, cached steps": Way(_cached_steps, ("llama", "qwen2", "falcon", "gptj", "olmo2")),
    "full forward, chunked prefill": Way(_chunked_prefill, ("llama", "qwen2", "opt")),
    "steps counted from 1": Way(_steps_from_one, ("gemma", "qwen2")),
    "one text, a row of a batch": Way(
        _row_of_a_batch,
        ("gpt2", "vit", "neox", "t5", "swin", "deberta", "albert", "dinov2", "regnet", "segformer"),
        partial=True,
    ),
    "padding right, left": Way(_padding_side, ("llama", "neox", "falcon", "gptj", "olmo2"), partial=True),
    "eager, sdpa": Way(_attention_kernels, ("llama", "vit", "neox", "whisper", "bart", "wav2vec2", "dinov2", "m2m100")),
    "mask of lowest number, bool": Way(_masks("lowest", "bool"), ("gpt2", "mixtral")),
    "mask of lowest number, -inf": Way(_masks("lowest", "-inf"), ("gemma", "neox", "olmo2")),
    "mask for each text, broadcast": Way(_masks("lowest", "broadcast"), ("llama", "mixtral")),
    "float64": Way(_double, ("vit", "dit", "unet", "regnet", "segformer", "recurrentgemma")),
    "stored as float16": Way(_stored_as_half, ("gemma", "mamba", "deberta", "encodec", "conformer")),
    "torch.export": Way(_exported, ("vit", "dit")),
    "layers renamed": Way(_other_names, ("bert", "whisper", "wav2vec2", "albert", "m2m100", "encodec")),
    "more recorded": Way(_more_recorded, ("spectral", "t5", "rwkv", "dinov2", "encodec", "conformer")),
    "less recorded": Way(_less_recorded, ("bert", "whisper", "unet", "regnet", "segformer", "conformer")),
    "numbered files": Way(_numbered_files, ("spectral", "mamba", "bart", "albert", "m2m100", "recurrentgemma")),
    "two ranks": Way(_shards, ("gpt2", "neox", "opt", "gptj")),
    "time first": Way(_time_first, ("tagger", "whisper")),
}
