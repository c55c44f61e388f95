"""A diffusion transformer: patches of a noisy picture, modulated by the time step (adaLN)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS, LAYERS, SIZE, PATCH = 32, 4, 3, 16, 4


class TimestepEmbedding(nn.Module):
    """Sine and cosine of the time step at many frequencies, then two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.max_period = 10_000.0
        self.one = nn.Linear(WIDTH, WIDTH)
        self.act = nn.SiLU()
        self.two = nn.Linear(WIDTH, WIDTH)

    def forward(self, t: torch.Tensor) -> torch.Tensor:
        half = WIDTH // 2
        rates = torch.exp(-math.log(self.max_period) * torch.arange(half) / half)
        angles = t[:, None] * rates[None]
        waves = torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1)
        out: torch.Tensor = self.two(self.act(self.one(waves.to(self.one.weight.dtype))))
        return out


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = HEADS
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        mixed = functional.scaled_dot_product_attention(q, k, v)
        out: torch.Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out


class GatedMLP(nn.Module):
    """Both halves of one linear layer, one of them as a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.fused = nn.Linear(WIDTH, 4 * WIDTH)
        self.act = nn.GELU(approximate="tanh")
        self.out = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.fused(x).chunk(2, dim=-1)
        out: torch.Tensor = self.out(self.act(gate) * up)
        return out


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(WIDTH, elementwise_affine=False, eps=1e-6)
        self.attn = Attention()
        self.norm_2 = nn.LayerNorm(WIDTH, elementwise_affine=False, eps=1e-6)
        self.mlp = GatedMLP()
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(WIDTH, 6 * WIDTH))

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        shift_1, scale_1, gate_1, shift_2, scale_2, gate_2 = self.modulation(condition)[:, None].chunk(6, dim=-1)
        x = x + gate_1 * self.attn(self.norm_1(x) * (1 + scale_1) + shift_1)
        out: torch.Tensor = x + gate_2 * self.mlp(self.norm_2(x) * (1 + scale_2) + shift_2)
        return out


class DiffusionTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, stride=PATCH)
        self.position = nn.Parameter(torch.zeros(1, (SIZE // PATCH) ** 2, WIDTH))
        self.time = TimestepEmbedding()
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 3 * PATCH * PATCH)

    def forward(self, picture: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        x = self.patches(picture.to(self.patches.weight.dtype)).flatten(2).transpose(1, 2) + self.position
        condition = self.time(t)
        for block in self.blocks:
            x = block(x, condition)
        side = SIZE // PATCH
        noise = self.head(self.norm(x)).reshape(-1, side, side, 3, PATCH, PATCH)
        return noise.permute(0, 3, 1, 4, 2, 5).reshape(-1, 3, SIZE, SIZE)  # type: ignore[no-any-return]


def noisy(generator: torch.Generator, batch: int) -> dict[str, Any]:
    picture = torch.randn(batch, 3, SIZE, SIZE, generator=generator)
    return {"picture": picture, "t": 100.0 + 800.0 * torch.rand(batch, generator=generator)}
