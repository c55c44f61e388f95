"""Models of other families and sizes, kept for faults that nobody tuned anything on."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import nn

WIDTH, HEADS, LAYERS, TOKENS, VOCABULARY = 48, 6, 2, 10, 70
_NAMES: dict[str, Any] = {
    **{"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS},
    **{"intermediate_size": 3 * WIDTH, "max_position_embeddings": 40, "use_cache": False},
}


def neox() -> nn.Module:
    """Attention and feed-forward side by side, rotary positions for a part of each head, one fused q, k and v."""
    tf: Any = import_module("transformers")
    made = tf.GPTNeoXForCausalLM(tf.GPTNeoXConfig(**_NAMES, attn_implementation="eager"))
    assert isinstance(made, nn.Module)
    return made


def gemma() -> nn.Module:
    """Norms with 1 + w, scaled embeddings, a gated feed-forward, one head of keys and values for all."""
    tf: Any = import_module("transformers")
    config = tf.GemmaConfig(**_NAMES, head_dim=12, num_key_value_heads=1, attn_implementation="eager")
    made = tf.GemmaForCausalLM(config)
    assert isinstance(made, nn.Module)
    return made


def ids(generator: torch.Generator, batch: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(4, VOCABULARY, (batch, TOKENS), generator=generator)}


class ConvNet(nn.Module):
    """Pictures through convolutions, batch norms and a pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.act = nn.ReLU()
        self.blocks = nn.ModuleList(ConvBlock(16) for _ in range(3))
        self.pool = nn.AvgPool2d(2)
        self.head = nn.Linear(16 * 6 * 6, 20)

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        x = self.act(self.norm(self.stem(picture)))
        for block in self.blocks:
            x = block(x)
        out: torch.Tensor = self.head(self.pool(x).flatten(1))
        return out


class ConvBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.GroupNorm(4, width)
        self.act = nn.Hardswish()
        self.two = nn.Conv2d(width, width, 3, padding=2, dilation=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.two(self.act(self.norm(self.one(x))))  # type: ignore[no-any-return]


def picture(generator: torch.Generator, batch: int) -> dict[str, Any]:
    return {"picture": torch.randn(batch, 3, 12, 12, generator=generator)}
