"""RWKV-4 in numpy token by token with a state, names of its author's code, texts packed behind each other."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import nn

from firstdiff.testing.ports.mathematics import layer_norm, sigmoid
from firstdiff.testing.ports.port import Array, Port, Tap, Weights, Wrong, fault, numpy_port
from firstdiff.testing.zoo.architectures import Architecture

D, FF, N, V, T = 24, 48, 3, 60, 5
EPS = 1e-5


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    config = tf.RwkvConfig(
        **{"vocab_size": V, "context_length": 32, "hidden_size": D, "attention_hidden_size": D},
        **{"num_hidden_layers": N, "intermediate_size": FF, "use_cache": False},
    )
    made: nn.Module = tf.RwkvForCausalLM(config)
    return made


def prompts(generator: torch.Generator, batch: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(4, V, (batch, T), generator=generator)}


class State:
    """What a layer remembers of the tokens before: their inputs, and sums with their exponent."""

    def __init__(self) -> None:
        self.att_xx, self.ffn_xx = (np.zeros(D, np.float32) for _ in range(2))
        self.aa, self.bb = (np.zeros(D, np.float32) for _ in range(2))
        self.pp = np.full(D, -1e38, np.float32)


def rwkv(w: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    kept: dict[str, list[Array]] = {}
    logits = []
    states = [State() for _ in range(N)]
    for ids in inputs["input_ids"]:
        for n in range(N):
            if not wrong("state of the text before", n):
                states[n] = State()
        if wrong("earlier token of the last text"):
            for state in states:
                state.att_xx = w["rwkv.embeddings.weight"][ids[-1]]
        logits += [token(w, number, states, kept, wrong) for number in ids]
    for name, values in kept.items():
        tap(name, np.stack(values))
    return np.stack(logits).reshape(*inputs["input_ids"].shape, V)


def token(w: Weights, number: int, states: list[State], kept: dict[str, list[Array]], wrong: Wrong) -> Array:
    def keep(name: str, values: Array) -> Array:
        kept.setdefault(name, []).append(values)
        return values

    x = w["rwkv.embeddings.weight"][number]
    if not wrong("embedding not normed"):
        x = norm(w, "rwkv.blocks.0.pre_ln", x)
    keep("emb", x)
    for n, state in enumerate(states):
        name, short = f"rwkv.blocks.{n}", f"blocks.{n}"
        att_in = keep(f"{short}.ln1", norm(w, f"{name}.ln1", x, 1e-2 if wrong("eps of the first norm", n) else EPS))
        att = keep(f"{short}.att", time_mixing(w, f"{name}.attention", att_in, state, n, short, keep, wrong))
        before, x = x, x + att
        ffn_in = norm(w, f"{name}.ln2", before if wrong("channels mixed beside time", n) else x)
        ffn = channel_mixing(w, f"{name}.feed_forward", ffn_in, state, att_in, n, wrong)
        x = keep(short, x + keep(f"{short}.ffn", ffn))
    if not wrong("last norm missing"):
        x = norm(w, "rwkv.ln_out", x)
    head = w["rwkv.embeddings.weight"] if wrong("head tied to the embedding") else w["head.weight"]
    return keep("logits", head @ x)


def time_mixing(w: Weights, name: str, x: Array, state: State, n: int, short: str, keep: Any, wrong: Wrong) -> Array:
    mixes = {part: w[f"{name}.time_mix_{part}"][0, 0] for part in ("key", "value", "receptance")}
    if wrong("mix of now and before exchanged", n):
        mixes = {part: 1 - mix for part, mix in mixes.items()}
    if wrong("receptance with the mix of keys", n):
        mixes["receptance"] = mixes["key"]
    mixed = {part: x * mix + state.att_xx * (1 - mix) for part, mix in mixes.items()}
    state.att_xx = x
    k = keep(f"{short}.att.k", w[f"{name}.key.weight"] @ mixed["key"])
    v = keep(f"{short}.att.v", w[f"{name}.value.weight"] @ mixed["value"])
    r = w[f"{name}.receptance.weight"] @ mixed["receptance"]
    r = keep(f"{short}.att.r", r if wrong("receptance without sigmoid", n) else sigmoid(r))
    bonus, decay = w[f"{name}.time_first"], w[f"{name}.time_decay"]
    decay = -np.abs(decay) if wrong("decay not exponentiated", n) else -np.exp(decay)
    bonus = np.zeros_like(bonus) if wrong("bonus of the present token missing", n) else bonus
    largest = np.maximum(state.pp, k + bonus)
    old, new = np.exp(state.pp - largest), np.exp(k + bonus - largest)
    wkv = (old * state.aa + new * v) / (old * state.bb + new)
    held = state.pp + (0 if wrong("nothing decays", n) else decay)
    largest = np.maximum(held, k)
    old, new = np.exp(held - largest), np.exp(k - largest)
    state.aa, state.bb, state.pp = old * state.aa + new * v, old * state.bb + new, largest
    rwkv = keep(f"{short}.att.rwkv", r * wkv)
    weight = w[f"{name}.output.weight"]
    return (weight.T if wrong("square weight transposed", n) else weight) @ rwkv


def channel_mixing(w: Weights, name: str, x: Array, state: State, other: Array, n: int, wrong: Wrong) -> Array:
    before = other if wrong("input of attention for the one before", n) else state.ffn_xx
    state.ffn_xx = x
    k, r = (
        x * mix + before * (1 - mix) for mix in (w[f"{name}.time_mix_{part}"][0, 0] for part in ("key", "receptance"))
    )
    k = np.maximum(w[f"{name}.key.weight"] @ k, 0)
    k = k if wrong("relu not squared", n) else k * k
    gate = sigmoid(w[f"{name}.receptance.weight"] @ r)
    value = w[f"{name}.value.weight"] @ k
    return value if wrong("gate left out", n) else gate * value


def norm(w: Weights, name: str, x: Array, eps: float = EPS) -> Array:
    return layer_norm(x, w[f"{name}.weight"], w[f"{name}.bias"], eps)


_B = "rwkv.blocks.{n}"
_A = "rwkv.blocks.{n}.attention"
_F = "rwkv.blocks.{n}.feed_forward"
PORT = Port(
    name="rwkv",
    half="open",
    style="numpy, token by token with a state, texts packed behind each other",
    build=lambda: Architecture("rwkv", reference, prompts).build(57),
    result=lambda output: output.logits,
    run=numpy_port(rwkv),
    faults=(
        fault("state of the text before", f"{_A}.key", "values.stale", layer=1),
        fault("earlier token of the last text", "rwkv.blocks.0.attention.key", "values.stale"),
        fault("embedding not normed", "rwkv.blocks.0.pre_ln", "op.skipped"),
        fault("eps of the first norm", f"{_B}.ln1", "norm.eps", layer=2),
        fault("channels mixed beside time", _F, "values.stale residual.missing", layer=1),
        fault("last norm missing", "rwkv.ln_out head", "op.skipped"),
        fault("head tied to the embedding", "head", "weights.differ"),
        fault("mix of now and before exchanged", f"{_A}.key", "layout.chunk_swap weights.differ", layer=0),
        fault("receptance with the mix of keys", f"{_A}.sigmoid", "weights.differ", layer=2),
        fault("receptance without sigmoid", f"{_A}.sigmoid", "activation.missing", layer=1),
        fault("decay not exponentiated", f"{_A}.mul@36 {_A}.output", "activation.missing op.skipped", layer=2),
        fault("bonus of the present token missing", f"{_A}.mul@36 {_A}.output", "bias.missing", layer=0),
        fault("nothing decays", f"{_A}.mul@36 {_A}.output", "bias.missing op.skipped", layer=1),
        fault("square weight transposed", f"{_A}.output", "weights.transposed", layer=0),
        fault("input of attention for the one before", _F, "values.stale", layer=0),
        fault("relu not squared", _F, "activation.kind op.skipped", layer=2),
        fault("gate left out", _F, "op.skipped", layer=1),
    ),
)
