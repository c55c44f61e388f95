"""Random weights under which every part of a model matters."""

from __future__ import annotations

import math

import torch
from torch import nn

_EMBEDDING_STD = 0.7


def randomise(model: nn.Module, seed: int) -> None:
    """Trained-like weights: norms near but not at 1, biases that are not 0, activations of about unit size."""
    generator = torch.Generator().manual_seed(seed)
    done: set[int] = set()
    for module in model.modules():
        for name, values in module.named_parameters(recurse=False):
            if id(values) not in done:
                done.add(id(values))
                _fill(module, name, values.data, generator)
    for found in model.modules():
        if type(found).__name__ == "T5Attention":  # does not scale its scores: its weights do
            found.q.weight.data *= found.key_value_proj_dim**-0.5  # type: ignore[union-attr,operator]
    for name, buffer in model.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer.copy_(0.5 + torch.rand(buffer.shape, generator=generator))


def _fill(module: nn.Module, name: str, values: torch.Tensor, generator: torch.Generator) -> None:
    random = torch.randn(values.shape, generator=generator)
    if isinstance(module, nn.Embedding):
        values.copy_(_EMBEDDING_STD * random)
    elif values.ndim == 1:
        values.copy_(1 + 0.2 * random if name == "weight" else 0.2 * random)
    else:
        values.copy_(random / math.sqrt(_fan_in(module, values)))


def _fan_in(module: nn.Module, values: torch.Tensor) -> int:
    if type(module).__name__ == "Conv1D":  # transformers' own: inputs first
        return values.shape[0]
    if isinstance(module, nn.ConvTranspose1d):
        return values.shape[0] * values.shape[2] // module.stride[0]
    return values[0].numel()
