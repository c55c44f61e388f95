"""Mistakes in attention: mask, scale, softmax."""

from __future__ import annotations

from typing import Any

import torch

from firstdiff.testing.zoo.edits import edit_function
from firstdiff.testing.zoo.fault import Site, Subject, fault

SDPA = "scaled_dot_product_attention"
KINDS = {
    **{"gpt2": "GPT2Attention", "llama": "LlamaAttention", "bert": "BertSdpaSelfAttention"},
    **{"whisper": "WhisperAttention", "vit": "ViTSelfAttention", "t5": "T5Attention"},
    **{"diffusion": "Attention", "moe": "MixtralAttention"},
}
_PLAIN = ("llama", "whisper", "vit", "t5")


def attention(subject: Subject) -> tuple[str, Any]:
    return subject.of_kind(KINDS[subject.architecture])


@fault("attention mask missing", "attention.mask", on="gpt2 llama moe")
def no_mask(subject: Subject) -> Site:
    name, module = attention(subject)
    if subject.architecture in _PLAIN:
        edit_function(module, "add", lambda _, scores, _mask: scores.clone(), call=2)
        return Site(name)

    def unmasked(function: Any, *args: Any, **named: Any) -> Any:
        return function(*args, **_without_mask(named))

    edit_function(module, SDPA, unmasked)
    return Site(name)


@fault("causal mask off by one", "attention.mask", on="gpt2 llama moe")
def off_by_one(subject: Subject) -> Site:
    name, module = attention(subject)
    if subject.architecture in _PLAIN:
        edit_function(module, "add", lambda function, scores, _: function(scores, _shifted(scores)), call=2)
        return Site(name)

    def shifted(function: Any, q: Any, k: Any, v: Any, **named: Any) -> Any:
        return function(q, k, v, attn_mask=_shifted(q @ k.transpose(-1, -2)) == 0, **_without_mask(named))

    edit_function(module, SDPA, shifted)
    return Site(name)


@fault("attention scale", "attention.scale", on="gpt2 llama bert vit diffusion moe")
def scale(subject: Subject) -> Site:
    name, module = attention(subject)
    width = {"bert": "attention_head_size", "vit": "attention_head_size"}.get(subject.architecture, "head_dim")
    size = getattr(module, width, 8)
    wrong = subject.random.choice([1.0, 1.0 / size])
    if hasattr(module, "scaling"):
        module.scaling = wrong
        return Site(name)

    def scaled(function: Any, *args: Any, **rest: Any) -> Any:
        return function(*args, **rest | {"scale": wrong})

    edit_function(module, SDPA, scaled)
    return Site(name)


@fault("softmax over the wrong axis", "softmax.axis", on="llama whisper vit t5")
def wrong_axis(subject: Subject) -> Site:
    name, module = attention(subject)
    edit_function(module, "softmax", lambda function, x, **rest: function(x, **rest | {"dim": -2}))
    return Site(name)


@fault("padding mask ignored", "attention.mask", on="bert t5")
def no_padding_mask(subject: Subject) -> Site:
    if subject.architecture == "bert":
        name, module = attention(subject)
        edit_function(module, SDPA, lambda function, *args, **named: function(*args, **_without_mask(named)))
        return Site(name)
    edit_function(subject.model.get_submodule("encoder"), "mul", lambda _, mask, _least: torch.zeros_like(mask))
    return Site("encoder")


@fault("scores capped", "attention.softcap", on="llama vit gpt2 moe")
def capped(subject: Subject) -> Site:
    name, module = attention(subject)
    cap = subject.random.choice([2.0, 5.0]) / (1 + subject.attempt)

    def softcap(scores: torch.Tensor) -> torch.Tensor:
        return cap * torch.tanh(scores / cap)

    if subject.architecture in _PLAIN:
        last = 4 if subject.architecture == "llama" else 0
        edit_function(module, "mul", lambda function, *args: softcap(function(*args)), call=last)
        return Site(name)

    def attended(_: Any, q: Any, k: Any, v: Any, **_named: Any) -> Any:
        """As the fused kernel would, in steps that a capture does not see."""
        with torch._C.DisableTorchFunction():
            times = q.shape[1] // k.shape[1]
            keys, values = (x.repeat_interleave(times, dim=1) for x in (k, v))
            scores = softcap(q @ keys.transpose(-1, -2) / q.shape[-1] ** 0.5)
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ values

    edit_function(module, SDPA, attended)
    return Site(name)


def _without_mask(named: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in named.items() if name not in ("is_causal", "attn_mask")}


def _shifted(scores: torch.Tensor) -> torch.Tensor:
    """Every token sees the next one, too."""
    mask = torch.zeros(scores.shape[-2:])
    return mask.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(2), torch.finfo(torch.float32).min)
