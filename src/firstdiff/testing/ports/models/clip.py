"""CLIP's text tower in torch the way of its authors: tokens first, `MultiheadAttention`, a projection by a product."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch
from torch import nn

from firstdiff.testing.ports.port import Port, Wrong, fault, torch_port
from firstdiff.testing.zoo.architectures import Architecture

D, H, FF, N, V, T, OUT, END = 32, 4, 64, 2, 70, 9, 20, 69


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    config = tf.CLIPTextConfig(
        **{"vocab_size": V, "hidden_size": D, "num_hidden_layers": N, "num_attention_heads": H, "projection_dim": OUT},
        **{"intermediate_size": FF, "max_position_embeddings": T, "eos_token_id": END, "attn_implementation": "eager"},
    )
    made: nn.Module = tf.CLIPTextModelWithProjection(config)
    return made


def captions(generator: torch.Generator, batch: int) -> dict[str, Any]:
    ids = torch.randint(4, END, (batch, T), generator=generator)
    for row in range(batch):
        ids[row, 5 + row :] = 0
        ids[row, 5 + row] = END
    return {"input_ids": ids}


class QuickGELU(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(1.702 * x)


class ResidualAttentionBlock(nn.Module):
    def __init__(self, wrong: Wrong, n: int) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(D, H)
        self.ln_1, self.ln_2 = nn.LayerNorm(D), nn.LayerNorm(D)
        gelu = nn.GELU() if wrong("gelu for quick gelu", n) else QuickGELU()
        self.mlp = nn.Sequential()
        self.mlp.add_module("c_fc", nn.Linear(D, FF))
        self.mlp.add_module("gelu", gelu)
        self.mlp.add_module("c_proj", nn.Linear(FF, D))
        self.wrong, self.n = wrong, n

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.full((len(x), len(x)), float("-inf")).triu(2 if self.wrong("one token ahead seen", self.n) else 1)
        y = self.ln_1(x)
        if self.wrong("no mask", self.n):
            mask = torch.zeros_like(mask)
        x = (y if self.wrong("residual from the norm", self.n) else x) + self.attn(
            y, y, y, need_weights=False, attn_mask=mask
        )[0]
        return x + self.mlp(self.ln_2(x))


class TextTower(nn.Module):
    def __init__(self, wrong: Wrong) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(V, D)
        self.positional_embedding = nn.Parameter(torch.empty(T, D))
        self.transformer = nn.Module()
        self.transformer.add_module("resblocks", nn.Sequential(*(ResidualAttentionBlock(wrong, n) for n in range(N))))
        self.ln_final = nn.LayerNorm(D)
        self.text_projection = nn.Parameter(torch.empty(D, OUT))
        self.wrong = wrong

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.token_embedding(text)
        positions = self.positional_embedding
        x = x + (positions.roll(1, 0) if self.wrong("positions one on") else positions)
        blocks: Any = self.transformer.resblocks
        x = blocks(x.permute(1, 0, 2)).permute(1, 0, 2)
        if not self.wrong("no last norm"):
            x = self.ln_final(x)
        end = torch.full((len(text),), T - 1) if self.wrong("last token") else text.argmax(-1)
        return x[torch.arange(len(x)), end] @ self.text_projection


def clip(weights: Mapping[str, torch.Tensor], wrong: Wrong) -> nn.Module:
    base = "text_model."
    loaded = {
        "token_embedding.weight": weights[f"{base}embeddings.token_embedding.weight"],
        "positional_embedding": weights[f"{base}embeddings.position_embedding.weight"],
        "text_projection": weights["text_projection.weight"].T,
    }
    for end in ("weight", "bias"):
        loaded[f"ln_final.{end}"] = weights[f"{base}final_layer_norm.{end}"]
        for n in range(N):
            mine, theirs = f"transformer.resblocks.{n}", f"{base}encoder.layers.{n}"
            order = "qvk" if wrong("chunks in order q, v, k", n) else "qkv"
            loaded[f"{mine}.attn.in_proj_{end}"] = torch.cat(
                [weights[f"{theirs}.self_attn.{part}_proj.{end}"] for part in order]
            )
            loaded[f"{mine}.attn.out_proj.{end}"] = weights[f"{theirs}.self_attn.out_proj.{end}"]
            one, two = ("2", "1") if wrong("norms swapped", n) else ("1", "2")
            loaded[f"{mine}.ln_1.{end}"] = weights[f"{theirs}.layer_norm{one}.{end}"]
            loaded[f"{mine}.ln_2.{end}"] = weights[f"{theirs}.layer_norm{two}.{end}"]
            loaded[f"{mine}.mlp.c_fc.{end}"] = weights[f"{theirs}.mlp.fc1.{end}"]
            loaded[f"{mine}.mlp.c_proj.{end}"] = weights[f"{theirs}.mlp.fc2.{end}"]
    model = TextTower(wrong)
    model.load_state_dict(loaded)
    return model


_L = "text_model.encoder.layers.{n}"
PORT = Port(
    name="clip",
    half="open",
    style="torch, captured, the way of its authors, tokens first",
    build=lambda: Architecture("clip", reference, captions).build(36),
    result=lambda output: output.text_embeds,
    run=torch_port(clip),
    faults=(
        fault("gelu for quick gelu", f"{_L}.mlp.activation_fn", "activation.kind", layer=0),
        fault(
            "one token ahead seen",
            f"text_model.masked_fill {_L}.self_attn.softmax",
            "attention.mask",
            layer=1,
        ),
        fault(
            "no mask",
            f"text_model.masked_fill {_L}.self_attn.softmax",
            "attention.mask",
            layer=0,
        ),
        fault("residual from the norm", f"{_L}.add {_L}.layer_norm2", layer=1),
        fault(
            "positions one on",
            "text_model.embeddings.position_embedding text_model.embeddings",
            "position.offset shift.sequence",
        ),
        fault("no last norm", "text_model.final_layer_norm text_projection:in.0", "op.skipped"),
        fault("last token", "text_projection:in.0 text_projection", ""),
        fault(
            "chunks in order q, v, k",
            f"{_L}.self_attn.out_proj:in.0 {_L}.self_attn.out_proj",
            "layout.qkv_order weights.differ",
            layer=0,
        ),
        fault("norms swapped", f"{_L}.layer_norm1", "weights.differ norm.affine", layer=1),
    ),
)
