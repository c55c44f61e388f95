"""Qwen2 in torch with the names of Meta's code: complex rotations, a cache of keys and values, several steps."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from firstdiff.testing.ports.port import Port, Wrong, fault, torch_port
from firstdiff.testing.zoo.architectures import Architecture

DIM, HEADS, KV, HEAD, LAYERS, VOCABULARY, BASE = 32, 4, 2, 8, 2, 80, 1e6
STEPS = (slice(0, 8), slice(8, 9), slice(9, 10))


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    config = tf.Qwen2Config(
        **{"vocab_size": VOCABULARY, "hidden_size": DIM, "intermediate_size": 48, "num_hidden_layers": LAYERS},
        **{"num_attention_heads": HEADS, "num_key_value_heads": KV, "max_position_embeddings": 64, "rope_theta": BASE},
        **{"attn_implementation": "sdpa", "tie_word_embeddings": False},
    )
    made = tf.Qwen2ForCausalLM(config)
    assert isinstance(made, nn.Module)
    return made


def prompts(generator: torch.Generator, batch: int) -> dict[str, Any]:
    return {"ids": torch.randint(0, VOCABULARY, (batch, 10), generator=generator)}


def generate(model: nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
    """A prompt and two more tokens, with transformers' cache."""
    tf: Any = import_module("transformers")
    cache = tf.DynamicCache()
    logits = [model(inputs["ids"][:, step], past_key_values=cache, use_cache=True).logits for step in STEPS]
    return torch.cat(logits, dim=1)


class RMSNorm(nn.Module):
    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(DIM))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Attention(nn.Module):
    def __init__(self, wrong: Wrong, layer_id: int) -> None:
        super().__init__()
        bias = not wrong("biases missing", layer_id)
        self.wq = nn.Linear(DIM, HEADS * HEAD, bias=bias)
        self.wk = nn.Linear(DIM, KV * HEAD)
        self.wv = nn.Linear(DIM, KV * HEAD)
        self.wo = nn.Linear(DIM, DIM, bias=False)
        self.wrong, self.layer_id = wrong, layer_id
        self.cache: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor, freqs_cis: torch.Tensor) -> torch.Tensor:
        wrong, layer_id = self.wrong, self.layer_id
        bsz, seqlen, _ = x.shape
        xq, xk, xv = self.wq(x), self.wk(x), self.wv(x)
        xq, xk, xv = (part.view(bsz, seqlen, -1, HEAD) for part in (xq, xk, xv))
        xq, xk = rotated(xq, freqs_cis), rotated(xk, freqs_cis)
        if self.cache:
            past_k, past_v = self.cache
            if wrong("first token fell out of the cache", layer_id):
                past_k, past_v = past_k[:, 1:], past_v[:, 1:]
            if wrong("values of the cache stale", layer_id):
                past_v = past_v.roll(1, dims=1)
            xk, xv = torch.cat([past_k, xk], dim=1), torch.cat([past_v, xv], dim=1)
        self.cache = [xk, xv]
        keys, values = (part.repeat_interleave(HEADS // KV, dim=2) for part in (xk, xv))
        if wrong("key heads tiled", layer_id):
            keys, values = xk.repeat(1, 1, HEADS // KV, 1), xv.repeat(1, 1, HEADS // KV, 1)
        xq, keys, values = (part.transpose(1, 2) for part in (xq, keys, values))
        scores = torch.matmul(xq, keys.transpose(2, 3)) / HEAD**0.5
        if seqlen > 1:
            mask = torch.full((seqlen, seqlen), float("-inf")).triu(1)
            if wrong("mask of the prompt missing", layer_id):
                mask = torch.zeros_like(mask)
            scores = scores + mask
        output = functional.softmax(scores.float(), dim=-1) @ values
        return self.wo(output.transpose(1, 2).contiguous().view(bsz, seqlen, -1))


class FeedForward(nn.Module):
    def __init__(self, wrong: Wrong, layer_id: int) -> None:
        super().__init__()
        self.w1 = nn.Linear(DIM, 48, bias=False)
        self.w2 = nn.Linear(48, DIM, bias=False)
        self.w3 = nn.Linear(DIM, 48, bias=False)
        self.wrong, self.layer_id = wrong, layer_id

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.wrong("sigmoid gate", self.layer_id):
            return self.w2(torch.sigmoid(self.w1(x)) * self.w3(x))
        return self.w2(functional.silu(self.w1(x)) * self.w3(x))


class TransformerBlock(nn.Module):
    def __init__(self, wrong: Wrong, layer_id: int) -> None:
        super().__init__()
        self.attention = Attention(wrong, layer_id)
        self.feed_forward = FeedForward(wrong, layer_id)
        self.attention_norm = RMSNorm(1e-6)
        self.ffn_norm = RMSNorm(1e-3 if wrong("norm eps", layer_id) else 1e-6)
        self.wrong, self.layer_id = wrong, layer_id

    def forward(self, x: torch.Tensor, freqs_cis: torch.Tensor) -> torch.Tensor:
        h = x + self.attention(self.attention_norm(x), freqs_cis)
        start = x if self.wrong("residual from the layer's input", self.layer_id) else h
        return start + self.feed_forward(self.ffn_norm(h))


class Transformer(nn.Module):
    def __init__(self, wrong: Wrong) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCABULARY, DIM)
        self.layers = nn.ModuleList(TransformerBlock(wrong, layer_id) for layer_id in range(LAYERS))
        self.norm = RMSNorm(1e-6)
        self.output = nn.Linear(DIM, VOCABULARY, bias=False)
        self.wrong = wrong

    def forward(self, tokens: torch.Tensor, start_pos: int) -> torch.Tensor:
        h = self.tok_embeddings(tokens)
        theta = 1e4 if self.wrong("rope base") else BASE
        freqs = 1.0 / theta ** (torch.arange(0, HEAD, 2).float() / HEAD)
        positions = torch.arange(start_pos, start_pos + tokens.shape[1])
        angles = torch.outer(positions.float(), freqs)
        freqs_cis = torch.polar(torch.ones_like(angles), angles)
        for layer in self.layers:
            h = layer(h, freqs_cis)
        return self.output(self.norm(h)).float()


def rotated(x: torch.Tensor, freqs_cis: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * freqs_cis[:, None]).flatten(3)


def transformer(weights: Mapping[str, torch.Tensor], wrong: Wrong) -> nn.Module:
    model = Transformer(wrong)
    names = {
        **{"tok_embeddings": "model.embed_tokens", "output": "lm_head", "attention.wq": "self_attn.q_proj"},
        **{"attention.wk": "self_attn.k_proj", "attention.wv": "self_attn.v_proj", "attention.wo": "self_attn.o_proj"},
        **{"feed_forward.w1": "mlp.gate_proj", "feed_forward.w2": "mlp.down_proj", "feed_forward.w3": "mlp.up_proj"},
        **{"attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"},
    }
    loaded = {}
    for name in model.state_dict():
        module, _, part = name.rpartition(".")
        layer, _, inner = module.partition(".")[2].partition(".")
        theirs = f"model.layers.{layer}.{names[inner]}" if inner else names.get(module, f"model.{module}")
        values = weights[f"{theirs}.{part}"]
        if inner in ("attention.wq", "attention.wk"):  # from halves to neighbouring channels
            values = values.reshape(-1, 2, HEAD // 2, *values.shape[1:]).transpose(1, 2).flatten(0, 2)
        loaded[name] = values
    if wrong("output weight transposed"):
        name = "layers.1.attention.wo.weight"
        loaded[name] = loaded[name].T
    model.load_state_dict(loaded)
    return model


def generate_again(model: nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
    assert isinstance(model, Transformer)
    logits = []
    for step in STEPS:
        start = 0 if model.wrong("positions start again at every step") else step.start
        if model.wrong("positions of steps one on") and step.start:
            start += 1
        logits.append(model(inputs["ids"][:, step], start))
    return torch.cat(logits, dim=1)


_LAYER = "model.layers.{n}"
_SDPA = "self_attn.scaled_dot_product_attention"
PORT = Port(
    name="qwen2",
    half="open",
    style="torch, captured, names of Meta's Llama, complex rotations, cached steps",
    build=lambda: Architecture("qwen2", reference, prompts).build(20),
    result=lambda output: output,
    run=torch_port(transformer, generate_again),
    accept_layout=("rope_interleave",),
    call=generate,
    faults=(
        fault("biases missing", f"{_LAYER}.self_attn.q_proj", "bias.missing", layer=1),
        fault(
            "first token fell out of the cache",
            f"{_LAYER}.{_SDPA}#s1 {_LAYER}.self_attn.cat@2#s1",
            "values.stale",
            layer=0,
        ),
        fault("values of the cache stale", f"{_LAYER}.self_attn.cat@3#s1 {_LAYER}.{_SDPA}#s1", "values.stale", layer=1),
        fault("key heads tiled", f"{_LAYER}.{_SDPA}", "attention.kv_heads layout.head_order", layer=1),
        fault("mask of the prompt missing", f"{_LAYER}.{_SDPA}", "attention.mask", layer=0),
        fault("sigmoid gate", f"{_LAYER}.mlp.act_fn {_LAYER}.mlp.mul", "activation.kind", layer=0),
        fault(
            "norm eps", f"{_LAYER}.post_attention_layernorm.add {_LAYER}.post_attention_layernorm", "norm.eps", layer=1
        ),
        fault("residual from the layer's input", _LAYER, "residual.missing", layer=0),
        fault("rope base", "model.rotary_emb.matmul model.layers.0.self_attn.add", "rope.base"),
        fault("output weight transposed", "model.layers.1.self_attn.o_proj", "weights.transposed"),
        fault(
            "positions start again at every step",
            "model.rotary_emb:in.1#s1 model.rotary_emb.matmul#s1 model.layers.0.self_attn.add#s1",
            "position.offset",
        ),
        fault(
            "positions of steps one on",
            "model.rotary_emb:in.1#s1 model.rotary_emb.matmul#s1 model.layers.0.self_attn.add#s1",
            "position.offset",
        ),
    ),
)
