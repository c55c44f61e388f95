"""Values that lost precision or range."""

from __future__ import annotations

import torch

from firstdiff.testing.zoo.edits import set_weight
from firstdiff.testing.zoo.fault import Site, Subject, fault
from firstdiff.testing.zoo.faults.values import changed
from firstdiff.testing.zoo.faults.weights import linear

_EVERYWHERE = "gpt2 llama bert whisper vit t5 vocoder diffusion moe"
_LINEAR = "gpt2 llama bert whisper vit t5 diffusion moe"


@fault("output rounded to bf16", "dtype.bf16", on=_EVERYWHERE)
def bf16(subject: Subject) -> Site:
    return changed(subject, lambda x: x.bfloat16().to(x.dtype))


@fault("output rounded to fp16", "dtype.fp16", on=_EVERYWHERE)
def fp16(subject: Subject) -> Site:
    return changed(subject, lambda x: x.half().to(x.dtype))


@fault("output rounded to int8", "dtype.int8", on=_EVERYWHERE)
def int8(subject: Subject) -> Site:
    return changed(subject, quantised)


@fault("weights rounded to bf16", "dtype.bf16", on=_LINEAR)
def bf16_weights(subject: Subject) -> Site:
    name, module = linear(subject)
    set_weight(module, "weight", module.weight.bfloat16().float())
    return Site(name)


@fault("weights rounded to fp16", "dtype.fp16", on=_LINEAR)
def fp16_weights(subject: Subject) -> Site:
    name, module = linear(subject)
    set_weight(module, "weight", module.weight.half().float())
    return Site(name)


@fault("weights rounded to int8", "dtype.int8", on=_LINEAR)
def int8_weights(subject: Subject) -> Site:
    name, module = linear(subject)
    set_weight(module, "weight", quantised(module.weight))
    return Site(name)


@fault("overflow in fp16", "overflow", on=_EVERYWHERE)
def overflow(subject: Subject) -> Site:
    """An intermediate value is larger than fp16 can hold."""

    def in_half(x: torch.Tensor) -> torch.Tensor:
        large = 1.5 * torch.finfo(torch.float16).max / x.abs().max()
        return (x * large).half().to(x.dtype) / large

    return changed(subject, in_half)


def quantised(x: torch.Tensor) -> torch.Tensor:
    """Symmetric, 127 steps to the largest value."""
    step = x.abs().max() / 127
    return torch.round(x / step) * step
