"""Gemma in numpy with the names of its JAX code: einsums over heads, keys and values stacked."""

from __future__ import annotations

import numpy as np

from firstdiff.testing.ports.mathematics import causal, gelu, gelu_tanh, rms_norm, softmax
from firstdiff.testing.ports.port import Array, Port, Tap, Weights, Wrong, fault, numpy_port
from firstdiff.testing.zoo.architectures import ARCHITECTURES

EMBED, HEADS, HEAD, LAYERS, EPS, WAVELENGTH = 48, 6, 12, 2, 1e-6, 10_000


def gemma(weights: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    tokens = inputs["input_ids"]
    table = weights["model.embed_tokens.weight"]
    x = table[tokens]
    if not wrong("embedding not scaled"):
        scale = np.sqrt(np.float32(EMBED))
        x = x * (np.float32(6.9375) if wrong("embedding scale rounded to bf16") else scale)
    x = tap("transformer/embedder", x)
    hidden = causal(tokens.shape[1], offset=1 if wrong("mask lets the next token in") else 0)
    for i in range(LAYERS):
        x = layer(weights, x, hidden, i, tap, wrong)
    final = x if wrong("final norm missing") else norm(weights["model.norm.weight"], x, wrong)
    final = tap("transformer/final_norm", final)
    return tap("transformer/logits", np.einsum("btd,vd->btv", final, table))


def layer(weights: Weights, x: Array, hidden: Array, i: int, tap: Tap, wrong: Wrong) -> Array:
    scope, theirs = f"transformer/layer_{i}", f"model.layers.{i}"
    normed = tap(f"{scope}/pre_attention_norm", norm(weights[f"{theirs}.input_layernorm.weight"], x, wrong, i))
    q_einsum = weights[f"{theirs}.self_attn.q_proj.weight"].reshape(HEADS, HEAD, EMBED).swapaxes(1, 2)
    kv = [weights[f"{theirs}.self_attn.{part}_proj.weight"].T for part in "kv"]
    kv_einsum = np.stack(kv[::-1] if wrong("keys and values swapped", i) else kv)
    q = tap(f"{scope}/attn/q_einsum", np.einsum("btd,ndh->btnh", normed, q_einsum))
    k, v = np.einsum("btd,cdh->cbth", normed, kv_einsum)
    tap(f"{scope}/attn/k", k)
    tap(f"{scope}/attn/v", v)
    base = 1000 if wrong("rope base", i) else WAVELENGTH
    q = tap(f"{scope}/attn/q_rope", rope(q, base, start=1 if wrong("queries one position on", i) else 0))
    k = tap(f"{scope}/attn/k_rope", rope(k[:, :, None], base)[:, :, 0])
    if not wrong("query not scaled", i):
        q = q * np.float32(HEAD**-0.5)
    logits = np.einsum("btnh,bsh->bnts", q, k)
    if wrong("scores capped", i):
        logits = 2 * np.tanh(logits / 2)
    logits = np.where(hidden, np.float32(-2.3819763e38), logits)
    probs = tap(f"{scope}/attn/probs", softmax(logits))
    encoded = tap(f"{scope}/attn/encoded", np.einsum("bnts,bsh->btnh", probs, v))
    out = weights[f"{theirs}.self_attn.o_proj.weight"].reshape(EMBED, HEADS, HEAD)
    attn = np.einsum("btnh,dnh->btd", encoded, out)
    x = x + tap(f"{scope}/attn/attn_vec_einsum", attn)
    x_norm = tap(f"{scope}/pre_ffw_norm", norm(weights[f"{theirs}.post_attention_layernorm.weight"], x, wrong))
    gate = tap(f"{scope}/mlp/gate", x_norm @ weights[f"{theirs}.mlp.gate_proj.weight"].T)
    up = x_norm @ weights[f"{theirs}.mlp.up_proj.weight"].T
    if wrong("activation on the other half", i):
        activations = gate * gelu_tanh(up)
    else:
        activations = (gelu(gate) if wrong("erf gelu") else gelu_tanh(gate)) * up
    linear = tap(f"{scope}/mlp/activations", activations) @ weights[f"{theirs}.mlp.down_proj.weight"].T
    if wrong("feed-forward from half precision", i):
        linear = linear.astype(np.float16).astype(np.float32)
    linear = tap(f"{scope}/mlp/linear", linear)
    return tap(scope, linear if wrong("residual missing", i) else x + linear)


def norm(weight: Array, x: Array, wrong: Wrong, i: int | None = None) -> Array:
    plain = i is not None and wrong("norm without one plus", i)
    if i is not None and wrong("layer norm for rms norm", i):
        x = x - x.mean(-1, keepdims=True)
    return rms_norm(x, weight if plain else 1 + weight, EPS)


def rope(x: Array, base: float, start: int = 0) -> Array:
    fraction = 2 * np.arange(HEAD // 2) / HEAD
    angles = (np.arange(x.shape[1]) + start)[:, None] / base**fraction
    sin, cos = (part.astype(np.float32)[:, None] for part in (np.sin(angles), np.cos(angles)))
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


_LAYER = "model.layers.{n}"
_ATTN = "model.layers.{n}.self_attn"
PORT = Port(
    name="gemma",
    half="open",
    style="numpy taps, names of the JAX code, einsums over heads",
    build=lambda: ARCHITECTURES["gemma"].build(15),
    result=lambda output: output.logits,
    run=numpy_port(gemma),
    faults=(
        fault("embedding not scaled", "model.mul", "scale.constant"),
        fault("embedding scale rounded to bf16", "model.mul", "scale.constant"),
        fault("mask lets the next token in", "model.layers.0.self_attn.softmax", "attention.mask"),
        fault("final norm missing", "model.norm", "op.skipped"),
        fault(
            "keys and values swapped", f"{_ATTN}.k_proj", "layout.chunk_swap layout.qkv_order weights.differ", layer=1
        ),
        fault("rope base", f"{_ATTN}.add", "rope.base", layer=1),
        fault("queries one position on", f"{_ATTN}.add", "position.offset", layer=0),
        fault("query not scaled", f"{_ATTN}.softmax", "attention.scale", layer=1),
        fault("scores capped", f"{_ATTN}.softmax", "attention.softcap", layer=0),
        fault("activation on the other half", f"{_LAYER}.mlp.mul", "layout.chunk_swap activation.kind", layer=1),
        fault("erf gelu", "model.layers.0.mlp.mul", "activation.kind"),
        fault("feed-forward from half precision", f"{_LAYER}.mlp", "dtype.fp16", layer=0),
        fault("residual missing", _LAYER, "residual.missing", layer=0),
        fault("norm without one plus", f"{_LAYER}.input_layernorm", "affine.one_plus", layer=1),
        fault("layer norm for rms norm", f"{_LAYER}.input_layernorm", "norm.kind", layer=1),
    ),
)
