"""Small models to capture, and a trace by key."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from firstdiff.capturing import capture
from firstdiff.readers import open_trace
from firstdiff.trace import Tensor, Trace

WIDTH, HEADS, TOKENS, VOCABULARY = 32, 4, 12, 50


class Attention(nn.Module):
    """Causal attention; `fused` is the kernel, otherwise the same in plain steps."""

    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.heads = heads
        self.fused = fused
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        q, k, v = (p.view(batch, tokens, self.heads, -1).transpose(1, 2) for p in self.qkv(x).chunk(3, dim=-1))
        if self.fused:
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
            scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads)
            mixed = nn.functional.softmax(scores.masked_fill(future, float("-inf")), dim=-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads, fused)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, layers: int = 2, width: int = WIDTH, heads: int = HEADS, *, fused: bool = True) -> None:
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(Block(width, heads, fused) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.wte(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.ln_f(x))


class Function(nn.Module):
    """A module whose forward is a given function of (module, arguments)."""

    def __init__(self, forward: Callable[..., Any], **children: nn.Module | nn.Parameter) -> None:
        super().__init__()
        self._function = forward
        for name, child in children.items():
            setattr(self, name, child)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(self, *args, **kwargs)


def gpt(**options: Any) -> GPT:
    torch.manual_seed(0)
    return GPT(**options).eval()


def ids(tokens: int = TOKENS, batch: int = 1) -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (batch, tokens), generator=torch.Generator().manual_seed(1))


def captured(model: nn.Module, path: Path, *args: Any, call: Callable[[], Any] | None = None, **options: Any) -> Trace:
    """The trace of one call of a model without gradients, or of `call`."""
    with torch.no_grad(), capture(model, path, **options):
        model(*args) if call is None else call()
    return open_trace(path)


def keys(trace: Trace, *roles: str) -> list[str]:
    return [str(tensor.key) for tensor in trace if not roles or tensor.record.role in roles]


def values(trace: Trace, key: str) -> np.ndarray:
    return trace[key].values().read()


def line(trace: Trace, key: str) -> dict[str, Any]:
    return trace[key].record.to_line()


def by_seq(trace: Trace) -> dict[int | None, Tensor]:
    return {tensor.record.seq: tensor for tensor in trace}


def sources(trace: Trace, key: str) -> list[str]:
    """The keys that a tensor names in `from`."""
    numbered = by_seq(trace)
    return [str(numbered[seq].key) for seq in trace[key].record.sources]
