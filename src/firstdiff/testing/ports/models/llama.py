"""Llama with grouped keys and values, in numpy with llama.cpp's names: one text at a time, pairs of channels turned."""

from __future__ import annotations

import numpy as np

from firstdiff.testing.ports.mathematics import gelu_tanh, rms_norm, silu, softmax
from firstdiff.testing.ports.port import Array, Port, Tap, Weights, Wrong, fault, numpy_port
from firstdiff.testing.zoo.architectures import ARCHITECTURES

N_HEAD, N_KV, HEAD, LAYERS, EPS, BASE = 4, 2, 8, 3, 1e-6, 10_000.0


def convert(weights: Weights, wrong: Wrong) -> dict[str, Array]:
    """The weights under llama.cpp's names, rows of q and k permuted for rotations of neighbouring channels."""
    gguf = {
        "token_embd.weight": weights["model.embed_tokens.weight"],
        "output_norm.weight": weights["model.norm.weight"],
        "output.weight": weights["lm_head.weight"],
    }
    names = {
        **{"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q"},
        **{"self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output"},
        **{"mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"},
    }
    for il in range(LAYERS):
        source = {1: 2, 2: 1}.get(il, il) if wrong("layers swapped") else il
        for theirs, ours in names.items():
            values = weights[f"model.layers.{source}.{theirs}.weight"]
            if ours in ("attn_q", "attn_k") and not wrong("rotary channels not permuted"):
                values = values.reshape(-1, 2, HEAD // 2, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
            gguf[f"blk.{il}.{ours}.weight"] = values
    if wrong("output tied to embedding"):
        gguf["output.weight"] = gguf["token_embd.weight"]
    if wrong("square weight transposed"):
        gguf["blk.1.attn_output.weight"] = gguf["blk.1.attn_output.weight"].T
    if wrong("gate and up swapped"):
        gate, up = "blk.2.ffn_gate.weight", "blk.2.ffn_up.weight"
        gguf[gate], gguf[up] = gguf[up], gguf[gate]
    return gguf


def llama(weights: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    w = convert(weights, wrong)
    cb = tap  # llama.cpp's name for it
    ids = inputs["input_ids"]
    n_batch, n_tok = ids.shape
    x = cb("inp_embd", w["token_embd.weight"][ids])
    positions = np.arange(n_tok)
    base = 5e5 if wrong("rope base") else BASE
    theta = np.outer(positions, base ** (-np.arange(0, HEAD, 2) / HEAD)).astype(np.float32)
    cos, sin = np.cos(theta)[:, None], np.sin(theta)[:, None]
    hidden = np.triu(np.ones((n_tok, n_tok), bool), 0 if wrong("mask off by one") else 1)
    if wrong("mask off by one"):
        hidden[0, 0] = False
    for il in range(LAYERS):
        eps = 1e-3 if wrong("norm eps", il) else EPS
        cur = cb(f"attn_norm-{il}", rms_norm(x, w[f"blk.{il}.attn_norm.weight"], eps))
        q, k, v = (
            cb(f"{letter}cur-{il}", cur @ w[f"blk.{il}.attn_{letter.lower()}.weight"].T).reshape(
                n_batch, n_tok, -1, HEAD
            )
            for letter in "QKV"
        )
        if wrong("queries one position on", il):
            cos_q, sin_q = (np.roll(part, -1, axis=0) for part in (cos, sin))
        else:
            cos_q, sin_q = cos, sin
        q = cb(f"Qcur_rope-{il}", rotate(q, cos_q, sin_q))
        k = cb(f"Kcur_rope-{il}", k if wrong("keys not rotated", il) else rotate(k, cos, sin))
        per = N_HEAD // N_KV
        owner = np.arange(N_HEAD) % N_KV if wrong("key heads tiled") else np.arange(N_HEAD) // per
        k, v = k[:, :, owner], v[:, :, owner]
        kq = np.einsum("bihd,bjhd->bhij", q, k)
        kq = kq / (HEAD if wrong("attention scale") else np.float32(np.sqrt(HEAD)))
        if not wrong("mask missing", il):
            kq = np.where(hidden, -np.inf, kq)
        probabilities = cb(f"kq_soft_max-{il}", softmax(kq, axis=-2 if wrong("softmax over queries", il) else -1))
        mixed = np.einsum("bhij,bjhd->bihd", probabilities, v).reshape(n_batch, n_tok, -1)
        out = cb(f"attn_out-{il}", cb(f"kqv_out-{il}", mixed) @ w[f"blk.{il}.attn_output.weight"].T)
        x_mid = cb(f"ffn_inp-{il}", out if wrong("residual missing", il) else x + out)
        norm_of = x if wrong("norm of the layer's input", il) else x_mid
        cur = cb(f"ffn_norm-{il}", rms_norm(norm_of, w[f"blk.{il}.ffn_norm.weight"], EPS))
        gate = cb(f"ffn_gate-{il}", cur @ w[f"blk.{il}.ffn_gate.weight"].T)
        up = cb(f"ffn_up-{il}", cur @ w[f"blk.{il}.ffn_up.weight"].T)
        gated = gelu_tanh(gate) if wrong("gelu for silu") else silu(gate)
        out = cb(f"ffn_out-{il}", cb(f"ffn_gate_par-{il}", gated * up) @ w[f"blk.{il}.ffn_down.weight"].T)
        x = cb(f"l_out-{il}", x_mid + out)
    x = x if wrong("final norm missing") else rms_norm(x, w["output_norm.weight"], EPS)
    cb("result_norm", x)
    return cb("result_output", x @ w["output.weight"].T)


def rotate(x: Array, cos: Array, sin: Array) -> Array:
    """Turn channels 0 and 1, 2 and 3, …"""
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)


_ATTN = "model.layers.{n}.self_attn"
PORT = Port(
    name="llama",
    half="open",
    style="numpy taps, names of llama.cpp, neighbouring rotary channels",
    build=lambda: ARCHITECTURES["llama"].build(11),
    result=lambda output: output.logits,
    run=numpy_port(llama),
    accept_layout=("rope_interleave",),
    faults=(
        fault("layers swapped", "model.layers.1.input_layernorm", "weights.differ scale.channel norm.affine"),
        fault("rotary channels not permuted", "model.layers.0.self_attn.add", "layout.rope_interleave"),
        fault("output tied to embedding", "lm_head", "weights.differ"),
        fault("square weight transposed", "model.layers.1.self_attn.o_proj", "weights.transposed"),
        fault("gate and up swapped", "model.layers.2.mlp.gate_proj", "weights.differ layout.chunk_swap"),
        fault("queries one position on", f"{_ATTN}.add", "position.offset", layer=0),
        fault("rope base", "model.layers.0.self_attn.add", "rope.base"),
        fault("mask off by one", "model.layers.0.self_attn.softmax", "attention.mask"),
        fault("norm eps", "model.layers.{n}.input_layernorm", "norm.eps", layer=1),
        fault("keys not rotated", f"{_ATTN}.add@1", "op.skipped position.offset", layer=2),
        fault("key heads tiled", "model.layers.0.self_attn.softmax", "attention.kv_heads layout.head_order"),
        fault("attention scale", "model.layers.0.self_attn.softmax", "attention.scale"),
        fault("mask missing", f"{_ATTN}.softmax", "attention.mask", layer=1),
        fault("softmax over queries", f"{_ATTN}.softmax", "softmax.axis", layer=0),
        fault("residual missing", "model.layers.{n}.add", "residual.missing", layer=1),
        fault(
            "norm of the layer's input",
            "model.layers.{n}.post_attention_layernorm",
            "residual.missing values.stale",
            layer=2,
        ),
        fault("gelu for silu", "model.layers.0.mlp.mul", "activation.kind"),
        fault("final norm missing", "model.norm", "op.skipped"),
    ),
)
