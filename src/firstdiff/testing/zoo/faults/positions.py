"""Mistakes in positions: rotary base and layout, offsets."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from firstdiff.testing.zoo.edits import around_forward, set_weight
from firstdiff.testing.zoo.fault import Site, Subject, fault
from firstdiff.testing.zoo.faults.attention import attention


@fault("rope base", "rope.base", on="llama moe")
def rope_base(subject: Subject) -> Site:
    name, module = subject.named("rotary_emb")
    base = subject.random.choice([500_000.0, 1_000.0, 50_000.0])
    width = 2 * module.inv_freq.shape[0]
    module.inv_freq = 1.0 / base ** (torch.arange(0, width, 2).float() / width)
    return Site(name)


@fault("rope interleaved", "layout.rope_interleave", on="llama moe")
def interleaved(subject: Subject) -> Site:
    name, module = attention(subject)

    def rotated(q: Any, k: Any, cos: Any, sin: Any, *_args: Any, **_named: Any) -> tuple[torch.Tensor, torch.Tensor]:
        half = cos.shape[-1] // 2
        cos, sin = (wave[..., :half].repeat_interleave(2, dim=-1).unsqueeze(1) for wave in (cos, sin))
        return q * cos + _pairs_rotated(q) * sin, k * cos + _pairs_rotated(k) * sin

    _patch_while_running(module, "apply_rotary_pos_emb", rotated)
    return Site(name)


@fault("rope weights interleaved", "layout.rope_interleave", on="llama moe")
def interleaved_weights(subject: Subject) -> Site:
    """Queries come out with the two halves of each head interleaved, as checkpoints of the other layout have them."""
    name, module = attention(subject)
    size = module.head_dim
    order = torch.arange(size).reshape(2, size // 2).T.reshape(-1)
    for part in (module.q_proj, module.k_proj):
        heads = part.weight.reshape(-1, size, part.weight.shape[-1])
        set_weight(part, "weight", heads[:, order].reshape(part.weight.shape))
    return Site(f"{name}.q_proj")


@fault("position offset", "position.offset", on="gpt2 llama bert whisper moe")
def offset(subject: Subject) -> Site:
    by = subject.random.choice([1, 2])
    if subject.architecture == "whisper":
        name, module = subject.named("decoder.embed_positions")
        around_forward(module, lambda forward, ids, *_args, **_named: forward(ids, past_key_values_length=by))
        return Site(name)
    tokens = subject.inputs["input_ids"].shape[1]
    subject.inputs["position_ids"] = torch.arange(tokens)[None] + by
    return Site({"gpt2": "transformer", "bert": "embeddings"}.get(subject.architecture, "model"))


@fault("kv heads tiled", "attention.kv_heads", on="llama")
def tiled(subject: Subject) -> Site:
    name, module = attention(subject)
    _patch_while_running(module, "repeat_kv", lambda x, times: x.repeat(1, times, 1, 1))
    return Site(name)


def _pairs_rotated(x: torch.Tensor) -> torch.Tensor:
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def _patch_while_running(module: Any, name: str, replacement: Callable[..., Any]) -> None:
    """A function of the file that a module's class is written in is another one while this module runs."""
    home = sys.modules[type(module).__module__]

    @contextmanager
    def patched() -> Iterator[None]:
        kept = getattr(home, name)
        setattr(home, name, replacement)
        try:
            yield
        finally:
            setattr(home, name, kept)

    def around(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with patched():
            return forward(*args, **kwargs)

    around_forward(module, around)
