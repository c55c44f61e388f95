"""BLOOM in numpy the way of Megatron: tokens first, heads and texts in one axis, positions as slopes of the scores."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import nn

from firstdiff.testing.ports.mathematics import causal, gelu, gelu_tanh, layer_norm, softmax
from firstdiff.testing.ports.port import Array, Port, Tap, Weights, Wrong, fault, numpy_port
from firstdiff.testing.zoo.architectures import Architecture

D, H, N, V, EPS = 32, 4, 2, 80, 1e-5


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    made: nn.Module = tf.BloomForCausalLM(
        tf.BloomConfig(vocab_size=V, hidden_size=D, n_layer=N, n_head=H, use_cache=False)
    )
    return made


def prompts(generator: torch.Generator, batch: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(4, V, (batch, 10), generator=generator)}


def bloom(w: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    ids = inputs["input_ids"].T
    x = w["transformer.word_embeddings.weight"][ids]
    if not wrong("no norm after the embedding"):
        x = norm(w, "transformer.word_embeddings_layernorm", x)
    x = tap("embedding", x)
    for n in range(N):
        x = layer(w, x, n, tap, wrong)
    x = tap("final_layernorm", norm(w, "transformer.ln_f", x))
    return tap("output", x @ w["transformer.word_embeddings.weight"].T).swapaxes(0, 1)


def layer(w: Weights, x: Array, n: int, tap: Tap, wrong: Wrong) -> Array:
    s, b, _ = x.shape
    name = f"transformer.h.{n}"
    ln = tap(f"layers.{n}.input_layernorm", norm(w, f"{name}.input_layernorm", x))
    mixed = tap(f"layers.{n}.self_attention.mixed_x_layer", linear(w, f"{name}.self_attention.query_key_value", ln))
    if wrong("q, k, v not by head", n):
        parts = [part.reshape(s, b, H, D // H) for part in np.split(mixed, 3, -1)]
    else:
        parts = list(np.moveaxis(mixed.reshape(s, b, H, 3, D // H), 3, 0))
    q, k, v = (part.reshape(s, b * H, D // H).swapaxes(0, 1) for part in parts)
    slopes = 2.0 ** (-np.arange(0 if wrong("slopes from 1") else 1, H + (0 if wrong("slopes from 1") else 1)) * 8 / H)
    if wrong("slopes of the heads reversed"):
        slopes = slopes[::-1]
    alibi = np.tile(slopes, b)[:, None, None] * np.arange(s)
    if wrong("slopes scaled as the scores"):
        alibi = alibi * (D // H) ** -0.5
    scores = (q @ k.swapaxes(1, 2) * np.float32((D // H) ** -0.5)).astype(np.float32)
    if not wrong("no slopes"):
        scores = scores + alibi.astype(np.float32)
    scores = np.where(causal(s), np.float32(-10000.0), scores)
    probs = tap(f"layers.{n}.self_attention.attention_probs", softmax(scores))
    context = (probs @ v).swapaxes(0, 1).reshape(s, b, D)
    context = tap(f"layers.{n}.self_attention.context_layer", context)
    out = linear(w, f"{name}.self_attention.dense", context)
    if wrong("bias of the output missing", n):
        out = out - w[f"{name}.self_attention.dense.bias"]
    x = (ln if wrong("residual from the norm", n) else x) + out
    y = norm(w, f"{name}.post_attention_layernorm", x)
    y = tap(f"layers.{n}.post_attention_layernorm", y)
    up = linear(w, f"{name}.mlp.dense_h_to_4h", y)
    up = gelu(up) if wrong("erf gelu", n) else gelu_tanh(up)
    return tap(f"layers.{n}", x + linear(w, f"{name}.mlp.dense_4h_to_h", up))


def norm(w: Weights, name: str, x: Array) -> Array:
    return layer_norm(x, w[f"{name}.weight"], w[f"{name}.bias"], EPS)


def linear(w: Weights, name: str, x: Array) -> Array:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


_L = "transformer.h.{n}"
_SOFTMAX = _L.format(n=0) + ".self_attention.softmax"
PORT = Port(
    name="bloom",
    half="open",
    style="numpy taps, names of Megatron, tokens first",
    build=lambda: Architecture("bloom", reference, prompts).build(32),
    result=lambda output: output.logits,
    run=numpy_port(bloom),
    faults=(
        fault("no norm after the embedding", "transformer.word_embeddings_layernorm", "op.skipped"),
        fault("q, k, v not by head", f"{_L}.self_attention.softmax", "layout.head_order layout.qkv_order", layer=1),
        fault("slopes from 1", _SOFTMAX),
        fault("slopes of the heads reversed", _SOFTMAX),
        fault("slopes scaled as the scores", _SOFTMAX, "attention.scale"),
        fault("no slopes", _SOFTMAX, "op.skipped"),
        fault(
            "bias of the output missing",
            f"{_L}.self_attention.dense {_L}.self_attention.add {_L}.post_attention_layernorm",
            "bias.missing",
            layer=0,
        ),
        fault("residual from the norm", f"{_L}.self_attention {_L}.post_attention_layernorm", layer=1),
        fault("erf gelu", f"{_L}", "activation.kind", layer=0),
    ),
)
