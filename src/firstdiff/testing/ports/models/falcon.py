"""Falcon in numpy the way of GGML: one text at a time, tensors named as llama.cpp names its graph, tokens last."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import nn

from firstdiff.testing.ports.mathematics import causal, gelu, gelu_tanh, layer_norm, softmax
from firstdiff.testing.ports.port import Array, Port, Tap, Weights, Wrong, fault, numpy_port
from firstdiff.testing.zoo.architectures import Architecture

D, H, KV, N, V, T = 48, 6, 2, 3, 72, 9
SIZE, GROUP = D // H, H // KV


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    config = tf.FalconConfig(
        **{"vocab_size": V, "hidden_size": D, "num_hidden_layers": N, "num_attention_heads": H, "num_kv_heads": KV},
        **{"new_decoder_architecture": True, "bias": False, "alibi": False, "max_position_embeddings": 64},
        **{"ffn_hidden_size": 64, "use_cache": False, "attn_implementation": "eager"},
    )
    made: nn.Module = tf.FalconForCausalLM(config)
    return made


def prompts(generator: torch.Generator, batch: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(4, V, (batch, T), generator=generator)}


def falcon(w: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    texts = [graph(w, ids, wrong) for ids in inputs["input_ids"]]
    for name in texts[0]:
        tap(name, np.stack([text[name] for text in texts]))
    return np.stack([text["result_output"] for text in texts]).swapaxes(1, 2)


def graph(w: Weights, ids: Array, wrong: Wrong) -> dict[str, Array]:
    """Every value of one text by name, channels by tokens."""
    cur = w["transformer.word_embeddings.weight"][ids]
    if wrong("embedding scaled"):
        cur = cur * np.float32(np.sqrt(D))
    cb = {"inp_embd": cur}
    for il in range(N):
        cur = layer(w, cur, il, cb, wrong)
    ln_f = "transformer.ln_f"
    cb["result_norm"] = layer_norm(
        cur, w[f"{ln_f}.weight"], w[f"{ln_f}.bias"], 1e-5, ddof=1 if wrong("variance of the last norm unbiased") else 0
    )
    cb["result_output"] = cb["result_norm"] @ w["lm_head.weight"].T
    return {name: values.swapaxes(-1, -2) if values.ndim == 2 else values for name, values in cb.items()}


def layer(w: Weights, inp: Array, il: int, cb: dict[str, Array], wrong: Wrong) -> Array:
    h = f"transformer.h.{il}"

    def norm(name: str) -> Array:
        bias = 0.0 if wrong("norm bias missing", il) and name == "ln_attn" else w[f"{h}.{name}.bias"]
        return layer_norm(inp, w[f"{h}.{name}.weight"], bias, 1e-5)

    attn_norm, attn_norm_2 = norm("ln_attn"), norm("ln_mlp")
    if wrong("norms swapped", il):
        attn_norm, attn_norm_2 = attn_norm_2, attn_norm
    cb[f"attn_norm-{il}"] = attn_norm
    attn_out = cb[f"attn_out-{il}"] = attention(w, attn_norm, il, cb, wrong)
    if wrong("one norm for both branches", il):
        attn_norm_2 = attn_norm
    if wrong("feed-forward after attention", il):
        attn_norm_2 = layer_norm(inp + attn_out, w[f"{h}.ln_mlp.weight"], w[f"{h}.ln_mlp.bias"], 1e-5)
    up = attn_norm_2 @ w[f"{h}.mlp.dense_h_to_4h.weight"].T
    up = cb[f"ffn_gelu-{il}"] = gelu_tanh(up) if wrong("tanh gelu", il) else gelu(up)
    ffn_out = cb[f"ffn_out-{il}"] = up @ w[f"{h}.mlp.dense_4h_to_h.weight"].T
    cb[f"l_out-{il}"] = ffn_out + attn_out if wrong("input not added back", il) else ffn_out + attn_out + inp
    return cb[f"l_out-{il}"]


def attention(w: Weights, x: Array, il: int, cb: dict[str, Array], wrong: Wrong) -> Array:
    name = f"transformer.h.{il}.self_attention"
    qkv = x @ w[f"{name}.query_key_value.weight"].T
    if wrong("all queries first", il):
        q = qkv[:, :D].reshape(-1, H, SIZE)
        k, v = qkv[:, D:].reshape(-1, 2, KV, SIZE).swapaxes(0, 1)
    else:
        groups = qkv.reshape(-1, KV, GROUP + 2, SIZE)
        q, k, v = groups[:, :, :GROUP].reshape(-1, H, SIZE), groups[:, :, GROUP], groups[:, :, GROUP + 1]
    cb[f"Vcur-{il}"] = v
    q, k = rope(q, wrong), rope(k, wrong)
    if wrong("keys not rotated", il):
        k = groups[:, :, GROUP]
    if wrong("positions of the queries one on", il):
        q = rope(q, wrong, only=1)
    cb[f"Qcur-{il}"], cb[f"Kcur-{il}"] = q, k
    if wrong("key heads tiled", il):
        k, v = np.tile(k, (1, GROUP, 1)), np.tile(v, (1, GROUP, 1))
    else:
        k, v = np.repeat(k, GROUP, 1), np.repeat(v, GROUP, 1)
    kq = np.einsum("qhd,khd->hqk", q, k)
    kq = kq / np.float32(np.sqrt(D) if wrong("scaled by the whole width", il) else np.sqrt(SIZE))
    ahead = causal(len(x), -1 if wrong("a token does not see itself", il) and len(x) > 1 else 0)
    ahead[0, 0] = False
    kq_soft = cb[f"kq_soft_max-{il}"] = softmax(np.where(ahead, np.float32(-1e30), kq))
    merged = np.einsum("hqk,khd->qhd", kq_soft, v)
    cb[f"kqv_merged-{il}"] = merged.reshape(-1, D)
    weight = w[f"{name}.dense.weight"]
    return cb[f"kqv_merged-{il}"] @ (weight if wrong("square weight transposed", il) else weight.T)


def rope(x: Array, wrong: Wrong, only: int | None = None) -> Array:
    """Turn halves against each other, by the position or by one number for all."""
    base = 500_000.0 if wrong("rope base of another model") else 10_000.0
    positions = np.arange(len(x)) if only is None else np.full(len(x), only)
    angles = positions[:, None, None] * base ** (-np.arange(0, SIZE, 2) / SIZE)
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    one, two = x[..., : SIZE // 2], x[..., SIZE // 2 :]
    return np.concatenate([one * cos - two * sin, two * cos + one * sin], -1)


_T = "transformer"
_H = "transformer.h.{n}"
_A = "transformer.h.{n}.self_attention"
PORT = Port(
    name="falcon",
    half="open",
    style="numpy, one text at a time, names of GGML, tokens last",
    build=lambda: Architecture("falcon", reference, prompts).build(52),
    result=lambda output: output.logits,
    run=numpy_port(falcon),
    faults=(
        fault("embedding scaled", f"{_T}.word_embeddings", "scale.constant"),
        fault("variance of the last norm unbiased", f"{_T}.ln_f", "norm.variance"),
        fault("norm bias missing", f"{_H}.ln_attn", "norm.affine bias.missing", layer=1),
        fault("norms swapped", f"{_H}.ln_attn", "weights.differ norm.affine scale.channel", layer=2),
        fault("one norm for both branches", f"{_H}.mlp.act", "weights.differ values.stale norm.affine", layer=1),
        fault("feed-forward after attention", f"{_H}.mlp.act", "values.stale residual.missing", layer=2),
        fault("tanh gelu", f"{_H}.mlp.act", "activation.kind", layer=0),
        fault("input not added back", _H, "residual.missing", layer=0),
        fault(
            "all queries first",
            f"{_A}.mul:in.input {_A}.add",
            "layout.qkv_order layout.head_order layout.reshape layout.chunk_swap",
            layer=0,
        ),
        fault("keys not rotated", f"{_A}.add@1 {_A}.softmax", "op.skipped position.offset", layer=2),
        fault("positions of the queries one on", f"{_A}.add", "position.offset", layer=1),
        fault("key heads tiled", f"{_A}.softmax", "attention.kv_heads layout.head_order", layer=1),
        fault("scaled by the whole width", f"{_A}.softmax", "attention.scale", layer=2),
        fault("a token does not see itself", f"{_A}.softmax", "attention.mask", layer=0),
        fault("square weight transposed", f"{_A}.dense", "weights.transposed", layer=1),
        fault("rope base of another model", f"{_T}.h.0.self_attention.add", "rope.base"),
    ),
)
