"""GPT-J in numpy the way of llama2.c: a run state, position after position, inputs and outputs of branches fused."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import nn

from firstdiff.testing.ports.mathematics import gelu_tanh, layer_norm, sigmoid
from firstdiff.testing.ports.port import Array, Port, Tap, Weights, Wrong, fault, numpy_port
from firstdiff.testing.zoo.architectures import Architecture

DIM, HEADS, ROT, HIDDEN, LAYERS, VOCAB, SEQ = 48, 4, 8, 80, 3, 68, 9
HS = DIM // HEADS


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    config = tf.GPTJConfig(
        **{
            "vocab_size": VOCAB,
            "n_positions": 32,
            "n_embd": DIM,
            "n_layer": LAYERS,
            "n_head": HEADS,
            "n_inner": HIDDEN,
        },
        **{"rotary_dim": ROT, "use_cache": False, "bos_token_id": 0, "eos_token_id": 1},
        attn_implementation="eager",
    )
    made: nn.Module = tf.GPTJForCausalLM(config)
    return made


def prompts(generator: torch.Generator, batch: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(2, VOCAB - 1, (batch, SEQ), generator=generator)}


@dataclass
class RunState:
    """Buffers for one position of every lane, and the caches of all positions."""

    x: Array
    key_cache: Array  # (layer, pos, lane, dim)
    value_cache: Array


def gptj(w: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    tokens = inputs["input_ids"]
    lanes, steps = tokens.shape
    cache = (LAYERS, steps, lanes, DIM)
    s = RunState(np.zeros((lanes, DIM), np.float32), np.zeros(cache, np.float32), np.zeros(cache, np.float32))
    dump: dict[str, list[Array]] = {}
    for pos in range(steps):
        forward(w, tokens[:, pos], pos, s, dump, wrong)
    for name, rows in dump.items():
        tap(name, np.stack(rows))
        if name.endswith(".q"):
            layer = int(name[1 : name.index(".")])
            tap(f"L{layer}.key_cache", s.key_cache[layer])
            tap(f"L{layer}.value_cache", s.value_cache[layer])
    return np.stack(dump["logits"], 1)


def forward(w: Weights, token: Array, pos: int, s: RunState, dump: dict[str, list[Array]], wrong: Wrong) -> None:
    def save(name: str, value: Array) -> Array:
        dump.setdefault(name, []).append(value)
        return value

    s.x = save("tok", w["transformer.wte.weight"][token + (1 if wrong("ids one too high") else 0)])
    for layer in range(LAYERS):
        p = f"transformer.h.{layer}"
        eps = 1e-3 if wrong("eps of a norm", layer) else 1e-5
        xb = save(f"L{layer}.xb", layer_norm(s.x, w[f"{p}.ln_1.weight"], w[f"{p}.ln_1.bias"], eps))
        w_in = np.concatenate([w[f"{p}.attn.{c}_proj.weight"] for c in "qkv"])
        q, k, v = np.split(xb @ w_in.T, 3, axis=1)
        hb = (s.x if wrong("feed-forward of what is not normed", layer) else xb) @ up_weight(w, p, layer, wrong).T
        hb = hb + w[f"{p}.mlp.fc_in.bias"]
        q, k = rotate(q, pos, layer, wrong), rotate(k, pos, layer, wrong, keys=True)
        s.key_cache[layer, pos], s.value_cache[layer, pos] = k, v
        save(f"L{layer}.q", q)
        xb2 = attend(q, pos, s, layer, save, wrong)
        hb = hb * sigmoid(np.float32(1.702) * hb) if wrong("quick gelu", layer) else gelu_tanh(hb)
        save(f"L{layer}.hb", hb)
        wo = w[f"{p}.attn.out_proj.weight"]
        w_out = np.concatenate(
            [wo.T if wrong("square weight transposed", layer) else wo, w[f"{p}.mlp.fc_out.weight"]], 1
        )
        y = np.concatenate([xb2, hb], 1) @ w_out.T
        if not wrong("bias of the outputs missing", layer):
            y = y + w[f"{p}.mlp.fc_out.bias"]
        save(f"L{layer}.y", y)
        s.x = save(f"L{layer}.x", y if wrong("input not added", layer) else y + s.x)
    ln_f = "transformer.ln_f"
    save("xf", layer_norm(s.x, w[f"{ln_f}.weight"], w[f"{ln_f}.bias"], 1e-5))
    bias = 0 if wrong("head without bias") else w["lm_head.bias"]
    save("logits", dump["xf"][-1] @ w["lm_head.weight"].T + bias)


def up_weight(w: Weights, p: str, layer: int, wrong: Wrong) -> Array:
    weight = w[f"{p}.mlp.fc_in.weight"]
    if wrong("weight in eight bits", layer):  # Q8_0, one scale for each row
        scale = np.abs(weight).max(1, keepdims=True) / np.float32(127)
        weight = np.round(weight / scale) * scale
    return weight


def rotate(vec: Array, pos: int, layer: int, wrong: Wrong, *, keys: bool = False) -> Array:
    """Turn neighbours of the first part of every head."""
    if keys and wrong("keys a position late", layer):
        pos = max(pos - 1, 0)
    out = vec.copy()
    width = HS if wrong("whole heads rotated", layer) else ROT
    size = HS if wrong("frequencies for the whole head", layer) else width
    for h in range(HEADS):
        for i in range(0, width, 2):
            angle = pos / 10000.0 ** (i / size)
            c, d = np.float32(np.cos(angle)), np.float32(np.sin(angle))
            d = -d if wrong("rotated backwards", layer) else d
            a, b = h * HS + i, h * HS + i + 1
            if wrong("halves rotated", layer):
                a, b = h * HS + i // 2, h * HS + i // 2 + width // 2
            out[:, a], out[:, b] = vec[:, a] * c - vec[:, b] * d, vec[:, a] * d + vec[:, b] * c
    return out


def attend(q: Array, pos: int, s: RunState, layer: int, save: Any, wrong: Wrong) -> Array:
    """Scores of this position for the positions so far; the rest of a row stays zero."""
    steps, lanes = s.key_cache.shape[1:3]
    att = np.zeros((lanes, HEADS, steps), np.float32)
    xb2 = np.zeros((lanes, DIM), np.float32)
    first = 1 if pos and wrong("first position forgotten", layer) else 0
    last = steps if wrong("cache read to its end", layer) else pos + 1
    values = s.value_cache[layer - 1 if wrong("values of the layer before", layer) else layer]
    size = ROT if wrong("scaled by the rotated part", layer) else HS
    for h in range(HEADS):
        head = slice(h * HS, (h + 1) * HS)
        row = np.stack([(q[:, head] * s.key_cache[layer, t][:, head]).sum(1) for t in range(first, last)], 1)
        row = row / np.float32(np.sqrt(size))
        row = np.exp(row - row.max(1, keepdims=True))
        att[:, h, first:last] = row / row.sum(1, keepdims=True)
        for t in range(first, last):
            xb2[:, head] += att[:, h, t, None] * values[t][:, head]
    save(f"L{layer}.att", att)
    return np.asarray(save(f"L{layer}.xb2", xb2))


_T = "transformer"
_H = "transformer.h.{n}"
_A = "transformer.h.{n}.attn"
PORT = Port(
    name="gptj",
    half="locked",
    style="numpy, the way of llama2.c: position after position, both branches fused, time first",
    build=lambda: Architecture("gptj", reference, prompts).build(62),
    result=lambda output: output.logits,
    run=numpy_port(gptj),
    faults=(
        fault("ids one too high", f"{_T}.wte", "ids.mismatch vocab.mismatch"),
        fault("eps of a norm", f"{_H}.ln_1", "norm.eps", layer=1),
        fault("halves rotated", f"{_T}.h.0.attn.cat {_T}.h.0.attn.cat@1", "layout.rope_interleave rope.direction"),
        fault("whole heads rotated", f"{_A}.cat {_A}.cat@1", "", layer=2),
        fault("rotated backwards", f"{_A}.cat {_A}.cat@1", "rope.direction sign.flip layout.rope_interleave", layer=1),
        fault("frequencies for the whole head", f"{_A}.cat {_A}.cat@1", "rope.base", layer=2),
        fault("keys a position late", f"{_A}.cat", "position.offset", layer=0),
        fault("scaled by the rotated part", f"{_A}.softmax", "attention.scale", layer=1),
        fault("cache read to its end", f"{_A}.softmax", "attention.mask", layer=0),
        fault("first position forgotten", f"{_A}.softmax", "attention.mask", layer=2),
        fault("values of the layer before", f"{_A}.matmul@1", "values.stale", layer=2),
        fault("feed-forward of what is not normed", f"{_H}.mlp.act", "values.stale op.skipped", layer=1),
        fault("weight in eight bits", f"{_H}.mlp.act", "dtype.int8", layer=2),
        fault("quick gelu", f"{_H}.mlp.act", "activation.kind", layer=0),
        fault("square weight transposed", f"{_H}.add", "weights.transposed", layer=0),
        fault("bias of the outputs missing", f"{_H}.add", "bias.missing", layer=1),
        fault("input not added", f"{_H}", "residual.missing", layer=2),
        fault("head without bias", "lm_head", "bias.missing"),
    ),
)
