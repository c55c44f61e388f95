"""Held-out faults, planted in other ways than those that diagnosis was tuned on."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.nn import functional

from firstdiff.testing.zoo.edits import around_forward, change_output, edit_function, set_weight
from firstdiff.testing.zoo.fault import Site, Subject, fault

unseen = partial(fault, held_out=True)
_TEXT = "neox gemma"
_ALL = "neox gemma convnet"
_NORMS = ("LayerNorm", "GemmaRMSNorm")
_LAYERS = ("Linear", "Conv2d")
_ACTIVATIONS = ("GELUActivation", "GELUTanh", "Hardswish", "ReLU")
_ATTENTIONS = ("GPTNeoXAttention", "GemmaAttention")


@unseen("unseen norm eps", "norm.eps", on="neox gemma convnet")
def norm_eps(subject: Subject) -> Site:
    name, module = subject.of_kind(*_NORMS, "GroupNorm", "BatchNorm2d")
    module.eps = subject.stronger(3e-3)
    return Site(name)


@unseen("unseen norm without centring", "norm.kind", on="neox")
def not_centred(subject: Subject) -> Site:
    name, module = subject.of_kind("LayerNorm")

    def forward(x: torch.Tensor) -> torch.Tensor:
        size = (x.square().mean(-1, keepdim=True) + module.eps).sqrt()
        return torch.addcmul(module.bias, x / size, module.weight)

    module.forward = forward
    return Site(name)


@unseen("unseen norm weight without 1", "affine.one_plus", on="gemma")
def not_one_plus(subject: Subject) -> Site:
    name, module = subject.of_kind("GemmaRMSNorm")
    module.forward = lambda x: functional.rms_norm(x, x.shape[-1:], module.weight, module.eps)
    return Site(name)


@unseen("unseen activation", "activation.kind", on=_ALL)
def activation(subject: Subject) -> Site:
    name, module = subject.of_kind(*_ACTIVATIONS)
    module.forward = subject.random.choice([functional.elu, functional.softplus, functional.silu])
    return Site(name)


@unseen("unseen bias", "bias.missing", on="neox convnet")
def no_bias(subject: Subject) -> Site:
    """Zeros are loaded in its place."""
    name, module = subject.one_of(
        "layer with a bias", lambda _, found: type(found).__name__ in _LAYERS and found.bias is not None
    )
    set_weight(module, "bias", torch.zeros_like(module.bias))
    return Site(name)


@unseen("unseen rows of weights reversed", "weights.differ", on=_ALL)
def reversed_rows(subject: Subject) -> Site:
    name, module = subject.of_kind(*_LAYERS)
    set_weight(module, "weight", module.weight.flip(1))
    return Site(name)


@unseen("unseen arithmetic in bf16", "dtype.bf16", on=_TEXT)
def in_bf16(subject: Subject) -> Site:
    """Input, weights and output of one layer are all rounded."""
    name, module = subject.of_kind("Linear")

    def rounded(_: Any, x: torch.Tensor) -> torch.Tensor:
        bias = None if module.bias is None else module.bias.bfloat16()
        return functional.linear(x.bfloat16(), module.weight.bfloat16(), bias).to(x.dtype)

    around_forward(module, rounded)
    return Site(name)


@unseen("unseen scale", "scale.constant", on=_ALL)
def scale(subject: Subject) -> Site:
    name, module = subject.of_kind(*_LAYERS, *_NORMS, "GroupNorm")
    factor = subject.random.choice([0.3, 1.7, 0.75])
    change_output(module, lambda x: x * factor)
    return Site(name)


@unseen("unseen shift", "shift.sequence", on=_TEXT)
def shift(subject: Subject) -> Site:
    """By several tokens, zeros coming in."""
    name, module = subject.of_kind("Linear", *_NORMS)
    by = subject.random.choice([2, 3])
    change_output(module, lambda x: functional.pad(x, (0, 0, by, 0))[:, : x.shape[1]].clone())
    return Site(name)


@unseen("unseen attention scale", "attention.scale", on=_TEXT)
def attention_scale(subject: Subject) -> Site:
    """By the width of the model in place of that of a head."""
    name, module = subject.of_kind(*_ATTENTIONS)
    module.scaling = 48**-0.5
    return Site(name)


@unseen("unseen softmax axis", "softmax.axis", on=_TEXT)
def softmax_axis(subject: Subject) -> Site:
    name, module = subject.of_kind(*_ATTENTIONS)
    edit_function(module, "softmax", lambda function, x, **rest: function(x, **rest | {"dim": 1}))
    return Site(name)


@unseen("unseen rope base", "rope.base", on="gemma")
def rope_base(subject: Subject) -> Site:
    name, module = subject.named("rotary_emb")
    width = 2 * module.inv_freq.shape[0]
    module.inv_freq = 1.0 / subject.random.choice([2e4, 1e6]) ** (torch.arange(0, width, 2).float() / width)
    return Site(name)


@unseen("unseen residual", "residual.missing", on="gemma convnet")
def residual(subject: Subject) -> Site:
    name, module = subject.of_kind("GemmaDecoderLayer", "ConvBlock")
    edit_function(module, "add", lambda _, *operands: operands[1].clone(), call=0)
    return Site(name)


@unseen("unseen block skipped", "op.skipped", on="gemma")
def block_skipped(subject: Subject) -> Site:
    name, module = subject.of_kind("GemmaMLP")
    around_forward(module, lambda _, x: x.clone())
    return Site(name)


@unseen("unseen convolution padding", "conv.padding", on="convnet")
def padding(subject: Subject) -> Site:
    name, module = subject.of_kind("Conv2d")
    amount = module.padding[0]

    def forward(x: torch.Tensor) -> torch.Tensor:
        padded = functional.pad(x, (amount,) * 4, mode="reflect")
        return functional.conv2d(padded, module.weight, module.bias, module.stride, 0, module.dilation)

    module.forward = forward
    return Site(name)


@unseen("unseen pooling", "pool.kind", on="convnet")
def pooling(subject: Subject) -> Site:
    name, module = subject.of_kind("AvgPool2d")
    module.forward = lambda x: functional.max_pool2d(x, 2)
    return Site(name)


@unseen("unseen clipping", "values.clipped", on=_ALL)
def clipping(subject: Subject) -> Site:
    """On one side only."""
    name, module = subject.of_kind(*_LAYERS, *_NORMS)
    change_output(module, lambda x: x.clamp(max=0.4 * float(x.max())))
    return Site(name)


@unseen("unseen heads", "layout.head_order", on=_TEXT)
def heads(subject: Subject) -> Site:
    name, module = subject.of_kind(*_ATTENTIONS)
    edit_function(module, "matmul", lambda function, *args: function(*args)[:, [2, 0, 1, 5, 3, 4]], call=1)
    return Site(name)
