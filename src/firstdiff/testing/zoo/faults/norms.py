"""Mistakes in normalisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from firstdiff.testing.zoo.fault import Site, Subject, fault

_CENTRED = ("LayerNorm",)
_ROOT = ("LlamaRMSNorm", "T5LayerNorm", "MixtralRMSNorm")
_LAYER_NORMS = "gpt2 bert whisper vit diffusion"
_RMS_NORMS = "llama t5 moe"


def norm(subject: Subject, *, affine: bool = False) -> tuple[str, Any]:
    """A norm over the last axis at random."""
    return subject.one_of(
        "norm with weights" if affine else "norm",
        lambda _, module: (
            type(module).__name__ in _CENTRED + _ROOT and not (affine and getattr(module, "weight", None) is None)
        ),
    )


def eps_of(module: Any) -> float:
    return float(module.eps if hasattr(module, "eps") else module.variance_epsilon)


@fault("norm eps", "norm.eps", on=f"{_LAYER_NORMS} {_RMS_NORMS}")
def other_eps(subject: Subject) -> Site:
    name, module = norm(subject)
    attribute = "eps" if hasattr(module, "eps") else "variance_epsilon"
    known = [1e-5, 1e-6, 1e-3] if eps_of(module) < 1e-6 else [1e-3, 1e-4]
    setattr(module, attribute, subject.stronger(subject.random.choice(known), 8))
    return Site(name)


@fault("norm kind", "norm.kind", on=f"{_LAYER_NORMS} {_RMS_NORMS}")
def other_kind(subject: Subject) -> Site:
    name, module = norm(subject)
    bias, eps = getattr(module, "bias", None), eps_of(module)
    if type(module).__name__ in _CENTRED:

        def forward(x: torch.Tensor) -> torch.Tensor:
            normed = functional.rms_norm(x, x.shape[-1:], module.weight, eps)
            return normed if bias is None else normed + bias
    else:

        def forward(x: torch.Tensor) -> torch.Tensor:
            return functional.layer_norm(x, x.shape[-1:], module.weight, bias, eps)

    module.forward = forward
    return Site(name)


@fault("norm affine missing", "norm.affine", on="gpt2 bert whisper vit llama t5 moe")
def no_affine(subject: Subject) -> Site:
    name, module = norm(subject, affine=True)
    eps = eps_of(module)
    if type(module).__name__ in _CENTRED:
        module.forward = lambda x: functional.layer_norm(x, x.shape[-1:], None, None, eps)
    else:
        module.forward = _root_mean_square(eps, lambda normed: normed)
    return Site(name)


@fault("norm 1 + w", "affine.one_plus", on="llama t5 moe")
def one_plus(subject: Subject) -> Site:
    name, module = norm(subject, affine=True)
    module.forward = _root_mean_square(eps_of(module), lambda normed: normed * (1 + module.weight))
    return Site(name)


@fault("norm variance unbiased", "norm.variance", on="gpt2 bert whisper vit diffusion")
def unbiased(subject: Subject) -> Site:
    name, module = subject.of_kind(*_CENTRED)

    def forward(x: torch.Tensor) -> torch.Tensor:
        spread = x.var(-1, keepdim=True, unbiased=True)
        normed = (x - x.mean(-1, keepdim=True)) * torch.rsqrt(spread + module.eps)
        normed = normed if module.weight is None else normed * module.weight
        return normed if module.bias is None else normed + module.bias

    module.forward = forward
    return Site(name)


@fault("norm group count", "norm.groups", on="vocoder")
def other_groups(subject: Subject) -> Site:
    name, module = subject.of_kind("GroupNorm")
    module.num_groups = subject.random.choice([2, 8, 16])
    return Site(name)


@fault("batch statistics", "norm.batch_statistics", on="vocoder")
def batch_statistics(subject: Subject) -> Site:
    name, module = subject.of_kind("BatchNorm1d")
    module.train()
    return Site(name)


def _root_mean_square(eps: float, affine: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return affine(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))

    return forward
