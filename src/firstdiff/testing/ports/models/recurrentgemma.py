"""RecurrentGemma in numpy the way of Fortran: capital names, time first, a scan by doubling, gates in one matrix."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import nn

from firstdiff.testing.ports.mathematics import causal, gelu_tanh, rms_norm, sigmoid, softmax
from firstdiff.testing.ports.port import Array, Port, Tap, Weights, Wrong, fault, numpy_port
from firstdiff.testing.zoo.architectures import Architecture

NDIM, NLRU, NHID, NHEAD, NBLK, NVOC, NTIME, KCONV = 24, 30, 44, 3, 4, 66, 9, 4
NSIZE, CAP, EPS = NDIM // NHEAD, 4.0, 1e-6


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    config = tf.RecurrentGemmaConfig(
        **{"num_hidden_layers": NBLK, "vocab_size": NVOC, "hidden_size": NDIM, "intermediate_size": 2 * NHID},
        **{"num_attention_heads": NHEAD, "num_key_value_heads": 1, "lru_width": NLRU, "attention_window_size": 16},
        **{"logits_soft_cap": CAP, "use_cache": False, "conv1d_width": KCONV},
    )
    made: nn.Module = tf.RecurrentGemmaForCausalLM(config)
    return made


def prompts(generator: torch.Generator, batch: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(3, NVOC, (batch, NTIME), generator=generator)}


def recurrentgemma(w: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    x = w["model.embed_tokens.weight"][inputs["input_ids"].T]
    rounded = 4.90625  # the root of 24 in bfloat16, as the model was trained
    x = tap("XEMB", x * np.float32(np.sqrt(NDIM) if wrong("root of the width not rounded") else rounded))
    for ib in range(NBLK):
        x = block(w, x, ib, tap, wrong)
    x = tap("XNORM", rms_norm(x, 1 + w["model.final_norm.weight"], EPS))
    x = x @ w["model.embed_tokens.weight"].T
    return tap("XLOGIT", x if wrong("cap left out") else np.tanh(x / CAP) * CAP).swapaxes(0, 1)


def block(w: Weights, x: Array, ib: int, tap: Tap, wrong: Wrong) -> Array:
    p = f"model.layers.{ib}"
    one = 0 if wrong("weight of the norm without one", ib) else 1
    xn = tap(f"BLK{ib + 1}_NORM1", rms_norm(x, one + w[f"{p}.temporal_pre_norm.weight"], EPS))
    mix = attention if f"{p}.temporal_block.q_proj.weight" in w else recurrence
    xr = tap(f"BLK{ib + 1}_RESID", mix(w, f"{p}.temporal_block", xn, ib, tap, wrong) + x)
    xn = rms_norm(xr, 1 + w[f"{p}.channel_pre_norm.weight"], EPS)
    wgu = np.concatenate([w[f"{p}.mlp_block.{part}_proj.weight"] for part in ("gate", "up")])
    bgu = np.concatenate([w[f"{p}.mlp_block.{part}_proj.bias"] for part in ("gate", "up")])
    xg, xu = np.split(xn @ wgu.T + bgu, 2, -1)
    if wrong("gate and up exchanged", ib):
        xg, xu = xu, xg
    xm = tap(f"BLK{ib + 1}_GATED", gelu_tanh(xg) * xu)
    xm = linear(w, f"{p}.mlp_block.down_proj", xm)
    return tap(f"BLK{ib + 1}_OUT", xm + (x if wrong("residual of the block before", ib) else xr))


def recurrence(w: Weights, p: str, x: Array, ib: int, tap: Tap, wrong: Wrong) -> Array:
    """The linear recurrence with gates, h(t) = a(t) h(t-1) + u(t), solved in steps of 1, 2, 4, ..."""
    y = tap(f"BLK{ib + 1}_Y", gelu_tanh(linear(w, f"{p}.linear_y", x)))
    c = conv(w, p, linear(w, f"{p}.linear_x", x), ib, wrong)
    tap(f"BLK{ib + 1}_CONV", c)
    gates = tap(f"BLK{ib + 1}_GATES", sigmoid(c @ gate_matrix(w, p, ib, wrong) + gate_bias(w, p)))
    gi, gr = np.split(gates, 2, -1)
    if wrong("gates exchanged", ib):
        gi, gr = gr, gi
    param = w[f"{p}.rg_lru.recurrent_param"]
    rate = np.maximum(param, 0) if wrong("relu for softplus", ib) else np.logaddexp(param, np.float32(0))
    a = tap(f"BLK{ib + 1}_A", np.exp(-8 * gr * rate))
    factor = np.sqrt(1 - a * a)
    if wrong("input not made smaller", ib):
        factor = np.ones_like(a)
    if not wrong("first token made smaller", ib):
        factor[0] = 1
    u = c * gi * factor
    tap(f"BLK{ib + 1}_U", u)
    a = np.concatenate([np.zeros_like(a[:1]), a[1:]])
    if wrong("state in half precision", ib):
        a, u = a.astype(np.float16), u.astype(np.float16)
    n = 1
    while n < len(u):
        u = np.concatenate([u[:n], u[n:] + a[n:] * u[:-n]])
        a = np.concatenate([a[:n], a[n:] * a[:-n]])
        n *= 2
    h = u.astype(np.float32)
    if wrong("state of the token before", ib):
        h = np.concatenate([np.zeros_like(h[:1]), h[:-1]])
    return linear(w, f"{p}.linear_out", tap(f"BLK{ib + 1}_H", h) * y)


def conv(w: Weights, p: str, x: Array, ib: int, wrong: Wrong) -> Array:
    kernel = w[f"{p}.conv_1d.weight"][:, 0]
    if wrong("kernel flipped", ib):
        kernel = kernel[:, ::-1]
    late = 1 if wrong("convolved a step late", ib) else 0
    c = np.zeros_like(x)
    for k in range(KCONV):
        back = KCONV - 1 - k + late
        c[back:] += x[: len(x) - back] * kernel[:, k]
    return c + w[f"{p}.conv_1d.bias"]


def gate_matrix(w: Weights, p: str, ib: int, wrong: Wrong) -> Array:
    """Both gates at once; each block of channels has matrices of its own."""
    size = NLRU // NHEAD
    full = np.zeros((NLRU, 2 * NLRU), np.float32)
    for start, part in ((0, "input"), (NLRU, "recurrent")):
        for ih, small in enumerate(w[f"{p}.rg_lru.{part}_gate_weight"]):
            rows, columns = slice(ih * size, (ih + 1) * size), slice(start + ih * size, start + (ih + 1) * size)
            full[rows, columns] = small.T if wrong("blocks transposed", ib) else small
    return full


def gate_bias(w: Weights, p: str) -> Array:
    return np.concatenate([w[f"{p}.rg_lru.{part}_gate_bias"].ravel() for part in ("input", "recurrent")])


def attention(w: Weights, p: str, x: Array, ib: int, tap: Tap, wrong: Wrong) -> Array:
    """All heads share one key and one value."""
    t, n, _ = x.shape
    q, k, v = (x @ w[f"{p}.{part}_proj.weight"].T for part in "qkv")
    q, k = rope(q.reshape(t, n, NHEAD, NSIZE), wrong), rope(k.reshape(t, n, 1, NSIZE), wrong)
    tap(f"BLK{ib + 1}_Q", q.reshape(t, n, -1))
    size = NDIM if wrong("scaled by the whole width") else NSIZE
    s = np.einsum("inhs,jns->nhij", q, k[:, :, 0]) / np.float32(np.sqrt(size))
    s = softmax(np.where(causal(t, 1 if wrong("next token seen") else 0), np.float32(-1e30), s))
    mixed = np.einsum("nhij,jns->inhs", s, v).reshape(t, n, -1)
    tap(f"BLK{ib + 1}_MIX", mixed)
    weight = w[f"{p}.o_proj.weight"]
    return mixed @ (weight if wrong("square weight transposed") else weight.T) + w[f"{p}.o_proj.bias"]


def rope(x: Array, wrong: Wrong) -> Array:
    """Turn the first half of every head."""
    half = NSIZE // 2
    angles = np.arange(len(x))[:, None, None, None] * 10000.0 ** (-np.arange(0, half, 2) / half)
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    out = x.copy()
    if wrong("neighbours rotated"):
        one, two = x[..., 0:half:2], x[..., 1:half:2]
        out[..., 0:half:2], out[..., 1:half:2] = one * cos - two * sin, two * cos + one * sin
    else:
        one, two = x[..., : half // 2], x[..., half // 2 : half]
        out[..., :half] = np.concatenate([one * cos - two * sin, two * cos + one * sin], -1)
    return out


def linear(w: Weights, name: str, x: Array) -> Array:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


_L = "model.layers.{n}"
_T = "model.layers.{n}.temporal_block"
_R = "model.layers.{n}.temporal_block.rg_lru"
_A = "model.layers.2.temporal_block"
PORT = Port(
    name="recurrentgemma",
    half="locked",
    style="numpy, capital names of Fortran, time first, the scan by doubling, both gates one matrix",
    build=lambda: Architecture("recurrentgemma", reference, prompts).build(65),
    result=lambda output: output.logits,
    run=numpy_port(recurrentgemma),
    faults=(
        fault("root of the width not rounded", "model.mul@1", "scale.constant"),
        fault("weight of the norm without one", f"{_L}.temporal_pre_norm", "affine.one_plus", layer=1),
        fault("kernel flipped", f"{_T}.conv_1d {_R}:in.0", "conv.flipped weights.differ", layer=1),
        fault("convolved a step late", f"{_T}.conv_1d {_R}:in.0", "shift.sequence conv.padding", layer=0),
        fault("blocks transposed", f"{_R}.sigmoid {_R}.sigmoid@1", "weights.transposed", layer=1),
        fault("gates exchanged", f"{_R}.exp", "layout.chunk_swap", layer=3),
        fault("relu for softplus", f"{_R}.exp", "activation.kind", layer=0),
        fault("input not made smaller", f"{_R}.mul@5", "op.skipped", layer=1),
        fault("first token made smaller", f"{_R}.mul@5", "", layer=3),
        fault("state in half precision", _R, "dtype.fp16", layer=1),
        fault("state of the token before", _R, "shift.sequence", layer=0),
        fault("gate and up exchanged", f"{_L}.mlp_block.mul", "layout.chunk_swap", layer=1),
        fault("residual of the block before", _L, "residual.missing values.stale", layer=3),
        fault("neighbours rotated", f"{_A}.cat@2", "layout.rope_interleave rope.direction"),
        fault("scaled by the whole width", f"{_A}.scaled_dot_product_attention", "attention.scale"),
        fault("next token seen", f"{_A}.scaled_dot_product_attention", "attention.mask"),
        fault("square weight transposed", "model.layers.2.add", "weights.transposed"),
        fault("cap left out", "root.mul", "activation.missing op.skipped"),
    ),
)
