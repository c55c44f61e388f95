"""DistilBERT in torch as one flat module: a fused projection, a mask of large negative numbers, scores by einsum."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from firstdiff.testing.ports.port import Port, Wrong, fault, torch_port
from firstdiff.testing.zoo.architectures import Architecture

D, H, FF, N, V = 32, 4, 64, 2, 90


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    config = tf.DistilBertConfig(
        **{"vocab_size": V, "dim": D, "n_heads": H, "n_layers": N, "hidden_dim": FF, "max_position_embeddings": 40},
        attn_implementation="eager",
    )
    made: nn.Module = tf.DistilBertForSequenceClassification(config)
    return made


def sentences(generator: torch.Generator, batch: int) -> dict[str, Any]:
    mask = torch.ones(batch, 11, dtype=torch.long)
    mask[0, 8:] = 0
    return {"input_ids": torch.randint(4, V, (batch, 11), generator=generator), "attention_mask": mask}


class Attn(nn.Module):
    def __init__(self, wrong: Wrong, n: int) -> None:
        super().__init__()
        self.in_proj, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.wrong, self.n = wrong, n

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        b, t, _ = x.shape
        q, k, v = self.in_proj(x).reshape(b, t, 3, H, D // H).unbind(2)
        s = torch.einsum("bqhd,bkhd->bhqk", q, k)
        if not self.wrong("scores not scaled", self.n):
            s = s * (D // H) ** -0.5
        if not self.wrong("padding not masked"):
            s = s + (1.0 - keep.float())[:, None, None] * (-2.0 if self.wrong("mask too weak") else -1e9)
        p = s.softmax(2 if self.wrong("softmax over queries", self.n) else -1)
        return self.proj(torch.einsum("bhqk,bkhd->bqhd", p, v).flatten(2))


class Layer(nn.Module):
    def __init__(self, wrong: Wrong, n: int) -> None:
        super().__init__()
        self.att = Attn(wrong, n)
        self.n1 = nn.LayerNorm(D, eps=1e-12)
        self.up, self.down = nn.Linear(D, FF), nn.Linear(FF, D)
        self.n2 = nn.LayerNorm(D, eps=1e-3 if wrong("eps of the second norm", n) else 1e-12)
        self.wrong, self.n = wrong, n

    def forward(self, x: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        a = self.att(x, keep)
        x = self.n1(a if self.wrong("no residual around attention", self.n) else x + a)
        h = functional.gelu(self.up(x), approximate="tanh" if self.wrong("tanh gelu", self.n) else "none")
        return self.n2(x + self.down(h))


class Classifier(nn.Module):
    def __init__(self, wrong: Wrong) -> None:
        super().__init__()
        self.tok, self.pos = nn.Embedding(V, D), nn.Embedding(40, D)
        self.norm = nn.LayerNorm(D, eps=1e-12)
        self.stack = nn.ModuleList(Layer(wrong, n) for n in range(N))
        self.fc, self.out = nn.Linear(D, D), nn.Linear(D, 2)
        self.wrong = wrong

    def forward(self, ids: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        first = 2 if self.wrong("positions from 2") else 0
        x = self.norm(self.tok(ids) + self.pos(torch.arange(first, first + ids.shape[1])))
        for layer in self.stack:
            x = layer(x, keep)
        x = x[:, -1] if self.wrong("last token instead of first") else x[:, 0]
        x = self.fc(x)
        return self.out(x.tanh() if self.wrong("tanh head") else x.relu())


def classifier(weights: Mapping[str, torch.Tensor], wrong: Wrong) -> nn.Module:
    names = {
        "tok": "distilbert.embeddings.word_embeddings",
        "pos": "distilbert.embeddings.position_embeddings",
        "norm": "distilbert.embeddings.LayerNorm",
        "fc": "pre_classifier",
        "out": "classifier",
    }
    loaded = {}
    for end in ("weight", "bias"):
        for mine, theirs in names.items():
            if f"{theirs}.{end}" in weights:
                loaded[f"{mine}.{end}"] = weights[f"{theirs}.{end}"]
        for n in range(N):
            source = f"distilbert.transformer.layer.{n}"
            order = "kqv" if wrong("keys and queries swapped", n) else "qkv"
            loaded[f"stack.{n}.att.in_proj.{end}"] = torch.cat(
                [weights[f"{source}.attention.{part}_lin.{end}"] for part in order]
            )
            for mine, theirs in {
                **{"att.proj": "attention.out_lin", "n1": "sa_layer_norm", "n2": "output_layer_norm"},
                **{"up": "ffn.lin1", "down": "ffn.lin2"},
            }.items():
                loaded[f"stack.{n}.{mine}.{end}"] = weights[f"{source}.{theirs}.{end}"]
            if wrong("output projection transposed", n):
                loaded[f"stack.{n}.att.proj.weight"] = weights[f"{source}.attention.out_lin.weight"].T
    model = Classifier(wrong)
    model.load_state_dict(loaded)
    return model


_L = "distilbert.transformer.layer.{n}"
_M = "distilbert.transformer.layer.0.attention"
_E = "distilbert.embeddings"
PORT = Port(
    name="distilbert",
    half="open",
    style="torch, captured, short flat names, fused q, k, v, einsums",
    build=lambda: Architecture("distilbert", reference, sentences).build(31),
    result=lambda output: output.logits,
    run=torch_port(classifier),
    faults=(
        fault("scores not scaled", f"{_L}.attention.matmul {_L}.attention.softmax", "attention.scale", layer=1),
        fault("padding not masked", _L.format(n=0) + ".attention.softmax", "attention.mask"),
        fault("mask too weak", f"{_M}.masked_fill {_M}.softmax", "attention.mask"),
        fault("softmax over queries", f"{_L}.attention.softmax", "softmax.axis", layer=0),
        fault("eps of the second norm", f"{_L}.output_layer_norm", "norm.eps", layer=0),
        fault("no residual around attention", f"{_L}.add {_L}.sa_layer_norm", "residual.missing", layer=1),
        fault("tanh gelu", f"{_L}.ffn.activation", "activation.kind", layer=1),
        fault(
            "positions from 2",
            f"{_E}.position_embeddings:in.0 {_E}.position_embeddings",
            "position.offset offset.constant",
        ),
        fault("last token instead of first", "pre_classifier:in.0 pre_classifier"),
        fault("tanh head", "root.relu classifier:in.0", "activation.kind"),
        fault(
            "keys and queries swapped",
            f"{_L}.attention.q_lin {_L}.attention.k_lin {_L}.attention.matmul",
            "layout.qkv_order weights.differ layout.chunk_swap layout.transpose",
            layer=1,
        ),
        fault("output projection transposed", f"{_L}.attention.out_lin", "weights.transposed", layer=0),
    ),
)
