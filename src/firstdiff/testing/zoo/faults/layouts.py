"""Mistakes in the order of things: heads, parts of a fused layer, tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from firstdiff.testing.zoo.edits import change_output, edit_function, set_weight
from firstdiff.testing.zoo.fault import Site, Subject, fault
from firstdiff.testing.zoo.faults.attention import SDPA, attention

_SPLIT = {"gpt2": "split", "diffusion": "chunk"}


@fault("q, k, v in another order", "layout.qkv_order", on="gpt2 diffusion")
def qkv_order(subject: Subject) -> Site:
    name, module = attention(subject)
    order = subject.random.choice([(0, 2, 1), (1, 0, 2), (2, 1, 0), (1, 2, 0)])
    _reorder(module, _SPLIT[subject.architecture], order)
    return Site(name)


@fault("qkv weights by head", "layout.qkv_order", on="gpt2 diffusion")
def qkv_by_head(subject: Subject) -> Site:
    """The fused layer gives q, k and v of one head after the other instead of all q, then all k, then all v."""
    name, module = attention(subject)
    child, axis = (module.c_attn, 1) if subject.architecture == "gpt2" else (module.qkv, 0)
    heads = 4
    for part in ("weight", "bias"):
        values = getattr(child, part)
        along = values.movedim(axis if part == "weight" else 0, 0)
        order = torch.arange(along.shape[0]).reshape(3, heads, -1).transpose(0, 1).reshape(-1)
        set_weight(child, part, along[order].movedim(0, axis if part == "weight" else 0))
    return Site(f"{name}.{'c_attn' if subject.architecture == 'gpt2' else 'qkv'}")


@fault("heads in another order", "layout.head_order", on="gpt2 llama bert whisper vit t5 diffusion moe")
def head_order(subject: Subject) -> Site:
    name, module = attention(subject)
    order = subject.random.choice([[1, 0, 3, 2], [3, 2, 1, 0], [0, 2, 1, 3], [1, 2, 3, 0]])
    _edit_mixed(subject, module, lambda mixed: mixed[:, order])
    return Site(name)


@fault(
    "heads not transposed back",
    "layout.reshape",
    "layout.transpose",
    on="gpt2 llama bert whisper vit t5 diffusion moe",
    why="reshaping without the transposition that belongs to it is both",
)
def not_transposed(subject: Subject) -> Site:
    name, module = attention(subject)

    def merged(mixed: torch.Tensor) -> torch.Tensor:
        batch, heads, tokens, size = mixed.shape
        return mixed.reshape(batch, tokens, heads, size).transpose(1, 2)

    _edit_mixed(subject, module, merged)
    return Site(name)


@fault("scores transposed", "layout.transpose", on="llama vit")
def scores_transposed(subject: Subject) -> Site:
    name, module = attention(subject)
    edit_function(module, "matmul", lambda function, a, b: function(a, b).transpose(-1, -2).contiguous(), call=0)
    return Site(name)


@fault("gate and up swapped", "layout.chunk_swap", on="diffusion")
def halves_swapped(subject: Subject) -> Site:
    name, module = subject.of_kind("GatedMLP")
    _reorder(module, "chunk", (1, 0))
    return Site(name)


@fault("gate and up weights swapped", "weights.differ", on="llama")
def gate_and_up(subject: Subject) -> Site:
    name, module = subject.of_kind("LlamaMLP")
    gate, up = module.gate_proj.weight.clone(), module.up_proj.weight.clone()
    set_weight(module.gate_proj, "weight", up)
    set_weight(module.up_proj, "weight", gate)
    return Site(f"{name}.gate_proj")


@fault("adaLN shift and scale swapped", "layout.chunk_swap", on="diffusion")
def modulation_swapped(subject: Subject) -> Site:
    name, module = subject.of_kind("Block")
    _reorder(module, "chunk", subject.random.choice([(1, 0, 2, 3, 4, 5), (0, 1, 2, 4, 3, 5), (1, 0, 2, 4, 3, 5)]))
    return Site(name)


@fault("sequence shifted", "shift.sequence", on="gpt2 llama bert whisper vit t5 vocoder diffusion")
def shifted(subject: Subject) -> Site:
    kinds = ("Linear", "Conv1D", "LayerNorm", "LlamaRMSNorm", "T5LayerNorm", "Conv1d")
    name, module = subject.one_of(
        "layer over a sequence",
        lambda name, found: type(found).__name__ in kinds and not name.startswith(("pooler", "time", "blocks.")),
    )
    by, axis = subject.random.choice([1, -1]), -1 if "Conv1d" in type(module).__name__ else 1
    change_output(module, lambda x: x.roll(by, axis))
    return Site(name)


def _reorder(module: Any, function: str, order: Sequence[int]) -> None:
    def reordered(inner: Any, *args: Any, **named: Any) -> tuple[torch.Tensor, ...]:
        parts = inner(*args, **named)
        return tuple(parts[place] for place in order)

    edit_function(module, function, reordered)


def _edit_mixed(subject: Subject, module: Any, change: Any) -> None:
    """Change what attention mixed from the values, before heads are merged."""
    plain = subject.architecture in ("llama", "whisper", "vit", "t5")
    edit_function(
        module,
        "matmul" if plain else SDPA,
        lambda function, *args, **named: change(function(*args, **named)),
        call=1 if plain else None,
    )
