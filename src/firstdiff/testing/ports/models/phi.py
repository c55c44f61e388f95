"""Phi in torch the way of its authors' first code: one norm for both branches, `Wqkv`, rotation of some channels."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from firstdiff.testing.ports.port import Port, Wrong, fault, torch_port
from firstdiff.testing.zoo.architectures import Architecture

D, H, FF, N, V, TURNED = 32, 4, 64, 2, 80, 4


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    config = tf.PhiConfig(
        **{"vocab_size": V, "hidden_size": D, "num_hidden_layers": N, "num_attention_heads": H, "use_cache": False},
        **{"intermediate_size": FF, "partial_rotary_factor": 0.5, "attn_implementation": "sdpa"},
    )
    made: nn.Module = tf.PhiForCausalLM(config)
    return made


def prompts(generator: torch.Generator, batch: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(4, V, (batch, 10), generator=generator)}


class Rotary(nn.Module):
    def __init__(self, wrong: Wrong) -> None:
        super().__init__()
        dim = D // H if wrong("all channels for the frequencies") else TURNED
        self.register_buffer("inv", 10000.0 ** (-torch.arange(0, TURNED, 2) / dim), persistent=False)

    def forward(self, qkv: torch.Tensor) -> torch.Tensor:
        angle = torch.outer(torch.arange(qkv.shape[1], dtype=torch.float32), self.get_buffer("inv"))
        c, s = angle.cos()[:, None, None], angle.sin()[:, None, None]
        turned, v = qkv[:, :, :2], qkv[:, :, 2:]
        one, two = turned[..., :TURNED].chunk(2, -1)
        turned = torch.cat([one * c - two * s, one * s + two * c, turned[..., TURNED:]], -1)
        return torch.cat([turned, v], 2)


class MHA(nn.Module):
    def __init__(self, wrong: Wrong, n: int) -> None:
        super().__init__()
        self.Wqkv, self.out_proj, self.rotary_emb = nn.Linear(D, 3 * D), nn.Linear(D, D), Rotary(wrong)
        self.wrong, self.n = wrong, n

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, _ = x.shape
        qkv = self.rotary_emb(self.Wqkv(x).view(b, t, 3, H, D // H))
        q, k, v = qkv.unbind(2)
        scores = torch.einsum("bthd,bshd->bhts", q, k / (D // H) ** 0.5)
        if self.wrong("mask on the wrong side", self.n):
            mask = torch.full((t, t), -10000.0).tril(-1)
        else:
            mask = torch.full((t, t), -10000.0).triu(1)
        probs = functional.softmax(scores + mask, dim=-1)
        return self.out_proj(torch.einsum("bhts,bshd->bthd", probs, v).reshape(b, t, D))


class MLP(nn.Module):
    def __init__(self, wrong: Wrong, n: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(D, FF), nn.Linear(FF, D)
        self.act = nn.SiLU() if wrong("silu for gelu", n) else nn.GELU(approximate="tanh")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.act(self.fc1(x)))


class ParallelBlock(nn.Module):
    def __init__(self, wrong: Wrong, n: int) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(D, eps=1e-2 if wrong("norm eps", n) else 1e-5)
        self.mixer, self.mlp = MHA(wrong, n), MLP(wrong, n)
        self.wrong, self.n = wrong, n

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.ln(x)
        attn = self.mixer(y)
        if self.wrong("branches one after the other", self.n):
            x = x + attn
            return x + self.mlp(self.ln(x))
        return attn + self.mlp(x if self.wrong("norm for attention only", self.n) else y) + x


class Head(nn.Module):
    def __init__(self, wrong: Wrong) -> None:
        super().__init__()
        self.ln, self.linear = nn.LayerNorm(D), nn.Linear(D, V)
        self.wrong = wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x if self.wrong("head without norm") else self.ln(x))


class Phi(nn.Module):
    def __init__(self, wrong: Wrong) -> None:
        super().__init__()
        self.wte = nn.Embedding(V, D)
        self.h = nn.ModuleList(ParallelBlock(wrong, n) for n in range(N))
        self.head = Head(wrong)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.wte(ids)
        for block in self.h:
            x = block(x)
        return self.head(x)


def phi(weights: Mapping[str, torch.Tensor], wrong: Wrong) -> nn.Module:
    loaded = {"wte.weight": weights["model.embed_tokens.weight"]}
    for end in ("weight", "bias"):
        loaded[f"head.ln.{end}"] = weights[f"model.final_layernorm.{end}"]
        loaded[f"head.linear.{end}"] = weights[f"lm_head.{end}"]
        for n in range(N):
            source = f"model.layers.{n}"
            loaded[f"h.{n}.mixer.Wqkv.{end}"] = torch.cat(
                [weights[f"{source}.self_attn.{p}_proj.{end}"] for p in "qkv"]
            )
            loaded[f"h.{n}.mixer.out_proj.{end}"] = weights[f"{source}.self_attn.dense.{end}"]
            loaded[f"h.{n}.ln.{end}"] = weights[f"{source}.input_layernorm.{end}"]
            loaded[f"h.{n}.mlp.fc1.{end}"] = weights[f"{source}.mlp.fc1.{end}"]
            loaded[f"h.{n}.mlp.fc2.{end}"] = weights[f"{source}.mlp.fc2.{end}"]
    if wrong("value bias missing"):
        loaded["h.1.mixer.Wqkv.bias"] = loaded["h.1.mixer.Wqkv.bias"].clone()
        loaded["h.1.mixer.Wqkv.bias"][2 * D :] = 0
    if wrong("weights of the other layer"):
        loaded["h.1.mlp.fc1.weight"] = loaded["h.0.mlp.fc1.weight"]
    model = Phi(wrong)
    model.load_state_dict(loaded)
    return model


_L = "model.layers.{n}"
_A = "self_attn.scaled_dot_product_attention"
PORT = Port(
    name="phi",
    half="open",
    style="torch, captured, the way of its authors, parallel branches",
    build=lambda: Architecture("phi", reference, prompts).build(34),
    result=lambda output: output.logits,
    run=torch_port(phi),
    faults=(
        fault(
            "all channels for the frequencies",
            "model.rotary_emb.matmul",
            "rope.base",
        ),
        fault("mask on the wrong side", f"{_L}.{_A}", "attention.mask", layer=1),
        fault("silu for gelu", f"{_L}.mlp.activation_fn", "activation.kind", layer=0),
        fault("norm eps", f"{_L}.input_layernorm", "norm.eps", layer=1),
        fault("branches one after the other", f"{_L}.mlp:in.0 {_L}.mlp.fc1", layer=0),
        fault("norm for attention only", f"{_L}.mlp:in.0 {_L}.mlp.fc1", "op.skipped", layer=1),
        fault("head without norm", "model.final_layernorm lm_head:in.0", "op.skipped"),
        fault("value bias missing", "model.layers.1.self_attn.v_proj", "bias.missing"),
        fault("weights of the other layer", "model.layers.1.mlp.fc1", "weights.differ"),
    ),
)
