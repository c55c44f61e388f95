"""A small GPT with faults to switch on, computed on the candidate's side in another order of summation."""

from __future__ import annotations

import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from torch import nn

from firstdiff.capturing import capture
from firstdiff.readers import open_trace
from firstdiff.trace import Trace

WIDTH, HEADS, TOKENS, VOCABULARY, LAYERS = 32, 4, 12, 50, 3


class Shuffled(nn.Linear):
    """A linear layer that sums in another order: no bit of its output need be the same."""

    order: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.order is None:
            return super().forward(x)
        order = self.order
        return nn.functional.linear(x[..., order], self.weight[:, order], self.bias)


Shuffled.__name__ = "Linear"


class Attention(nn.Module):
    def __init__(self, faults: Collection[str], name: str) -> None:
        super().__init__()
        self.faults, self.name = faults, name
        self.qkv, self.out = Shuffled(WIDTH, 3 * WIDTH), Shuffled(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        q, k, v = (p.view(batch, tokens, HEADS, -1).transpose(1, 2) for p in self.qkv(x).chunk(3, dim=-1))
        diagonal = 2 if f"{self.name}.mask" in self.faults else 1
        future = torch.ones(tokens, tokens, dtype=torch.bool).triu(diagonal)
        scale = 1.0 if f"{self.name}.scale" in self.faults else math.sqrt(width // HEADS)
        scores = (q @ k.transpose(-1, -2)) / scale
        scores = scores + (3.0 if f"{self.name}.hidden" in self.faults else 0.0)  # softmax takes it away again
        weights = nn.functional.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
        if f"{self.name}.head" in self.faults:
            weights[:, 2] *= 0.9
        heads = weights @ v
        if f"{self.name}.joined" in self.faults:
            heads = torch.from_numpy(heads.numpy()[:, ::-1].copy())
        return self.out(heads.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self, faults: Collection[str], name: str) -> None:
        super().__init__()
        self.faults, self.name = faults, name
        self.ln_1, self.attn = nn.LayerNorm(WIDTH), Attention(faults, f"{name}.attn")
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(Shuffled(WIDTH, 4 * WIDTH), nn.GELU(), Shuffled(4 * WIDTH, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        attended = self.attn(self._between("ln_1", self.ln_1(x)))
        x = attended if f"{self.name}.residual" in self.faults else x + attended
        y = x + self.mlp(self._between("ln_2", self.ln_2(x)))
        return y.clone().mul_(1.01) if f"{self.name}.end" in self.faults else y

    def _between(self, place: str, values: torch.Tensor) -> torch.Tensor:
        """Code between two modules that no function of the reference's trace shows."""
        return torch.from_numpy(values.numpy() * 1.01) if f"{self.name}.after_{place}" in self.faults else values


class GPT(nn.Module):
    def __init__(self, faults: Collection[str]) -> None:
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Block(faults, f"layers.{n}") for n in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)
        self.head = Shuffled(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.wte(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.ln_f(x))


def model(faults: Collection[str] = (), *, shuffled: bool = False, dtype: torch.dtype = torch.float32) -> GPT:
    torch.manual_seed(0)
    made = GPT(faults).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn(parameter.shape))
            else:
                parameter.mul_(2.0)
    if shuffled:
        for module in made.modules():
            if isinstance(module, Shuffled):
                module.order = torch.randperm(module.in_features)
    return made.to(dtype)


def change(made: GPT, fault: str) -> GPT:
    """Faults of weights and settings, by the name of the module that has them."""
    name, _, kind = fault.partition("!")
    module: Any = made.get_submodule(name)
    with torch.no_grad():
        if kind == "eps":
            module.eps = 1e-2
        elif kind == "weight":
            module.weight[3] *= 1.03
        elif kind == "bias":
            module.bias.zero_()
        elif kind == "activation":
            module.approximate = "tanh"
        else:
            raise ValueError(fault)
    return made


def trace(made: nn.Module, path: Path, **options: Any) -> Trace:
    ids = torch.randint(0, VOCABULARY, (2, TOKENS), generator=torch.Generator().manual_seed(1))
    with torch.no_grad(), capture(made, path, params="all", **options):
        made(ids)
    return open_trace(path)
