"""Mistakes in activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from firstdiff.testing.zoo.fault import Site, Subject, fault

KINDS = ("NewGELUActivation", "GELUActivation", "SiLUActivation", "GELU", "SiLU", "ReLU", "LeakyReLU")


def quick_gelu(x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(1.702 * x)


def tanh_gelu(x: torch.Tensor) -> torch.Tensor:
    return functional.gelu(x, approximate="tanh")


@fault("gelu tanh or erf", "activation.kind", on="gpt2 bert vit diffusion")
def other_gelu(subject: Subject) -> Site:
    name, module = subject.of_kind("NewGELUActivation", "GELUActivation", "GELU")
    is_tanh = type(module).__name__.startswith("New") or getattr(module, "approximate", "") == "tanh"
    return _set(name, module, functional.gelu if is_tanh else tanh_gelu)


@fault("gelu quick", "activation.kind", on="gpt2 bert vit diffusion")
def quick(subject: Subject) -> Site:
    name, module = subject.of_kind("NewGELUActivation", "GELUActivation", "GELU")
    return _set(name, module, quick_gelu)


@fault("activation wrong", "activation.kind", on="gpt2 llama bert whisper vit t5 vocoder diffusion moe")
def wrong(subject: Subject) -> Site:
    name, module = subject.of_kind(*KINDS)
    others: list[Callable[..., torch.Tensor]] = [functional.relu, functional.silu, functional.gelu, functional.mish]
    kind = type(module).__name__
    return _set(name, module, subject.random.choice([made for made in others if made.__name__ not in kind.lower()]))


@fault("activation missing", "activation.missing", on="gpt2 llama bert whisper vit t5 vocoder diffusion moe")
def missing(subject: Subject) -> Site:
    name, module = subject.of_kind(*KINDS)
    return _set(name, module, torch.clone)


def _set(name: str, module: Any, function: Callable[..., torch.Tensor]) -> Site:
    """A module shared by several places is wrong in all of them."""
    module.forward = function
    return Site(name)
