"""GPT-2 in torch the way of nanoGPT: linear layers instead of Conv1D, a causal flag instead of a mask."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional

from firstdiff.testing.ports.port import Port, Wrong, fault, torch_port
from firstdiff.testing.zoo.architectures import ARCHITECTURES

WIDTH, HEADS, LAYERS, VOCABULARY, BLOCK = 32, 4, 3, 96, 64


class CausalSelfAttention(nn.Module):
    def __init__(self, wrong: Wrong, layer: int) -> None:
        super().__init__()
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.c_proj = nn.Linear(WIDTH, WIDTH)
        self.wrong, self.layer = wrong, layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.size()  # noqa: N806
        q, k, v = self.c_attn(x).split(WIDTH, dim=2)
        if self.wrong("chunks in order k, q, v", self.layer):
            q, k = k, q
        if self.wrong("heads cut from channels strided", self.layer):
            q, k, v = (part.view(B, T, C // HEADS, HEADS).permute(0, 3, 1, 2) for part in (q, k, v))
        else:
            q, k, v = (part.view(B, T, HEADS, C // HEADS).transpose(1, 2) for part in (q, k, v))
        if self.wrong("values half precision", self.layer):
            v = v.half().float()
        att = (q @ k.transpose(-2, -1)) * (1.0 if self.wrong("attention scale") else 1.0 / math.sqrt(k.size(-1)))
        if not self.wrong("mask missing", self.layer):
            past = 1 if self.wrong("mask lets the next token in", self.layer) else 0
            att = att.masked_fill(torch.ones(T, T).tril(past) == 0, float("-inf"))
        y = functional.softmax(att, dim=-1) @ v
        if self.wrong("heads not put back", self.layer):
            return self.c_proj(y.contiguous().view(B, T, C))
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class MLP(nn.Module):
    def __init__(self, wrong: Wrong, layer: int) -> None:
        super().__init__()
        self.c_fc = nn.Linear(WIDTH, 2 * WIDTH)
        self.c_proj = nn.Linear(2 * WIDTH, WIDTH)
        self.wrong, self.layer = wrong, layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.c_fc(x)
        if self.wrong("relu for gelu", self.layer):
            x = functional.relu(x)
        else:
            x = functional.gelu(x, approximate="none" if self.wrong("erf gelu") else "tanh")
        return self.c_proj(x)


class Block(nn.Module):
    def __init__(self, wrong: Wrong, layer: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH, eps=1e-3 if wrong("norm eps", layer) else 1e-5)
        self.attn = CausalSelfAttention(wrong, layer)
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.mlp = MLP(wrong, layer)
        self.wrong, self.layer = wrong, layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.wrong("norm after the residual", self.layer):
            x = self.ln_1(x + self.attn(x))
        else:
            x = x + self.attn(self.ln_1(x))
        if self.wrong("feed-forward without residual", self.layer):
            return self.mlp(self.ln_2(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, wrong: Wrong) -> None:
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "tok_emb": nn.Embedding(VOCABULARY, WIDTH),
                "pos_emb": nn.Embedding(BLOCK, WIDTH),
                "blocks": nn.ModuleList(Block(wrong, layer) for layer in range(LAYERS)),
                "norm": nn.LayerNorm(WIDTH),
            }
        )
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.wrong = wrong

    def forward(self, idx: torch.Tensor) -> torch.Tensor:
        parts = self.transformer
        pos = torch.arange(idx.size(1)) + (1 if self.wrong("positions from 1") else 0)
        x = parts["tok_emb"](idx)
        if not self.wrong("no positions"):
            x = x + parts["pos_emb"](pos)
        for block in self.transformer["blocks"].children():
            x = block(x)
        if not self.wrong("final norm missing"):
            x = parts["norm"](x)
        return self.head(x)


def gpt(weights: Mapping[str, torch.Tensor], wrong: Wrong) -> nn.Module:
    """Load the reference's weights; Conv1D keeps them transposed."""
    model = GPT(wrong)
    loaded = {}
    for name in model.state_dict():
        theirs = name.replace("tok_emb", "wte").replace("pos_emb", "wpe").replace("blocks", "h")
        theirs = theirs.replace("transformer.norm", "transformer.ln_f").replace("head.", "lm_head.")
        values = weights[theirs]
        turned = values.ndim == 2 and ".c_" in name
        if name == "transformer.blocks.1.attn.c_proj.weight" and wrong("square weight transposed"):
            turned = False
        loaded[name] = values.T if turned else values
    if wrong("bias missing"):
        name = "transformer.blocks.2.mlp.c_fc.bias"
        loaded[name] = torch.zeros_like(loaded[name])
    model.load_state_dict(loaded)
    return model


_H = "transformer.h.{n}"
PORT = Port(
    name="gpt2",
    half="open",
    style="torch, captured, the way of nanoGPT",
    build=lambda: ARCHITECTURES["gpt2"].build(12),
    result=lambda output: output.logits,
    run=torch_port(gpt),
    faults=(
        fault(
            "chunks in order k, q, v",
            f"{_H}.attn.scaled_dot_product_attention:in.query {_H}.attn.scaled_dot_product_attention",
            "layout.qkv_order layout.chunk_swap",
            layer=1,
        ),
        fault(
            "heads cut from channels strided",
            f"{_H}.attn.scaled_dot_product_attention:in.query",
            "layout.head_order layout.reshape layout.transpose",
            layer=0,
        ),
        fault("values half precision", f"{_H}.attn.scaled_dot_product_attention:in.value", "dtype.fp16", layer=1),
        fault("attention scale", "transformer.h.0.attn.scaled_dot_product_attention", "attention.scale"),
        fault("mask missing", f"{_H}.attn.scaled_dot_product_attention", "attention.mask", layer=2),
        fault("mask lets the next token in", f"{_H}.attn.scaled_dot_product_attention", "attention.mask", layer=0),
        fault(
            "heads not put back",
            f"{_H}.attn.c_proj:in.0 {_H}.attn.c_proj",
            "layout.head_order layout.reshape layout.transpose",
            layer=1,
        ),
        fault("relu for gelu", f"{_H}.mlp.act", "activation.kind", layer=2),
        fault("erf gelu", "transformer.h.0.mlp.act", "activation.kind"),
        fault("norm eps", f"{_H}.ln_1", "norm.eps", layer=1),
        fault("norm after the residual", f"{_H}.ln_1:in.0 {_H}.ln_1 {_H}.attn.c_attn", "op.skipped", layer=1),
        fault("feed-forward without residual", f"{_H}", "residual.missing", layer=0),
        fault("positions from 1", "transformer.wpe:in.0 transformer.wpe", "position.offset offset.constant"),
        fault("no positions", "transformer.add", "residual.missing op.skipped"),
        fault("final norm missing", "transformer.ln_f lm_head:in.0", "op.skipped"),
        fault("square weight transposed", "transformer.h.1.attn.c_proj", "weights.transposed"),
        fault("bias missing", "transformer.h.2.mlp.c_fc", "bias.missing"),
    ),
)
