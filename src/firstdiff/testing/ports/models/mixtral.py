"""A mixture of experts in numpy: every expert for every token, weighed by a table of gates; flat names."""

from __future__ import annotations

import numpy as np

from firstdiff.testing.ports.mathematics import causal, rms_norm, sigmoid, silu, softmax
from firstdiff.testing.ports.port import Array, Port, Tap, Weights, Wrong, fault, numpy_port
from firstdiff.testing.zoo.architectures import ARCHITECTURES

LAYERS, HEADS, KV, DIM, EXPERTS, CHOSEN, EPS = 2, 4, 2, 8, 4, 2, 1e-5


def mixtral(w: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    state = {"x": tap("x0", w["model.embed_tokens.weight"][inputs["input_ids"]])}
    for n in range(LAYERS):
        p = {name.split(f"layers.{n}.")[1]: values for name, values in w.items() if f"layers.{n}." in name}
        attend(p, state, n, tap, wrong)
        experts(p, state, n, tap, wrong)
    final = tap("xf", rms_norm(state["x"], w["model.norm.weight"], EPS))
    return tap("logits", final @ w["lm_head.weight"].T)


def attend(p: Weights, state: dict[str, Array], n: int, tap: Tap, wrong: Wrong) -> None:
    x = state["x"]
    batch, tokens, _ = x.shape
    normed = tap(f"l{n}_n1", rms_norm(x, 1 if wrong("norm weight missing", n) else p["input_layernorm.weight"], EPS))
    q, k, v = (normed @ p[f"self_attn.{part}_proj.weight"].T for part in "qkv")
    tap(f"l{n}_q", q)
    tap(f"l{n}_k", k)
    tap(f"l{n}_v", v)
    q, k, v = (part.reshape(batch, tokens, -1, DIM).transpose(2, 0, 1, 3) for part in (q, k, v))
    q, k = turned(q, wrong), turned(k, wrong)
    k, v = (np.repeat(part, HEADS // KV, axis=0) for part in (k, v))
    if wrong("one value head for all", n):
        v = np.broadcast_to(v[:1], v.shape)
    scores = np.einsum("nbih,nbjh->nbij", q, k) * np.float32(DIM**-0.5)
    hidden = causal(tokens)
    if wrong("window of four tokens", n):
        hidden = hidden | ~causal(tokens, offset=-5)
    scores = np.where(hidden, np.float32(-1e30), scores)
    mixed = np.einsum("nbij,nbjh->binh", softmax(scores), v).reshape(batch, tokens, -1)
    out = tap(f"l{n}_att", mixed) @ p["self_attn.o_proj.weight"].T
    state["x"] = tap(f"l{n}_mid", x + tap(f"l{n}_o", out))


def experts(p: Weights, state: dict[str, Array], n: int, tap: Tap, wrong: Wrong) -> None:
    x = state["x"]
    flat = tap(f"l{n}_n2", rms_norm(x, p["post_attention_layernorm.weight"], EPS)).reshape(-1, x.shape[-1])
    logits = tap(f"l{n}_router", flat @ p["block_sparse_moe.gate.weight"].T)
    gates = sigmoid(logits) if wrong("sigmoid routing", n) else softmax(logits)
    order = np.argsort(-gates, axis=-1, kind="stable")
    count = 1 if wrong("one expert only", n) else CHOSEN
    chosen = np.take_along_axis(gates, order[:, :count], -1)
    if not wrong("gates not normalised", n):
        chosen = chosen / chosen.sum(-1, keepdims=True)
    if wrong("gates of the experts swapped", n):
        chosen = chosen[:, ::-1]
    table = np.zeros_like(gates)
    np.put_along_axis(table, order[:, :count], chosen, -1)
    tap(f"l{n}_gates", chosen)
    out = np.zeros_like(flat)
    for e in range(EXPERTS):
        name = f"block_sparse_moe.experts.{(e + 1) % EXPERTS if wrong('experts one off', n) else e}"
        gate, lift = flat @ p[f"{name}.w1.weight"].T, flat @ p[f"{name}.w3.weight"].T
        if wrong("activation on the other product", n):
            gate, lift = lift, gate
        hidden = np.maximum(gate, 0) * lift if wrong("relu experts", n) else silu(gate) * lift
        out += table[:, e : e + 1] * (hidden @ p[f"{name}.w2.weight"].T)
    moe = tap(f"l{n}_moe", out.reshape(x.shape))
    state["x"] = tap(f"l{n}_x", moe + (0 if wrong("residual missing", n) else x))


def turned(x: Array, wrong: Wrong) -> Array:
    base = 1e5 if wrong("rope base") else 1e6
    angles = np.arange(x.shape[-2])[:, None] * base ** (-np.arange(0, DIM, 2) / DIM)
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    if wrong("rotated backwards"):
        sin = -sin
    one, two = x[..., : DIM // 2], x[..., DIM // 2 :]
    return np.concatenate([one * cos - two * sin, two * cos + one * sin], -1)


_LAYER = "model.layers.{n}"
_MOE = "model.layers.{n}.block_sparse_moe"
_SDPA = "self_attn.scaled_dot_product_attention"
PORT = Port(
    name="mixtral",
    half="open",
    style="numpy taps, short flat names, dense experts, heads first",
    build=lambda: ARCHITECTURES["moe"].build(19),
    result=lambda output: output.logits,
    run=numpy_port(mixtral),
    faults=(
        fault("norm weight missing", f"{_LAYER}.input_layernorm", "norm.affine scale.channel", layer=1),
        fault("one value head for all", f"{_LAYER}.{_SDPA}", "attention.kv_heads", layer=0),
        fault("window of four tokens", f"{_LAYER}.{_SDPA}", "attention.mask", layer=1),
        fault("sigmoid routing", f"{_MOE}.div", "routing.gate activation.kind", layer=0),
        fault("one expert only", f"{_MOE}.div {_MOE}", "routing.top_k", layer=1),
        fault("gates not normalised", f"{_MOE}.div", "routing.gate scale.row op.skipped", layer=0),
        fault(
            "gates of the experts swapped",
            f"{_MOE}.div {_MOE}",
            "layout.reversed layout.chunk_swap routing.gate",
            layer=1,
        ),
        fault("experts one off", _MOE, "weights.differ", layer=0),
        fault("activation on the other product", _MOE, "layout.chunk_swap activation.kind", layer=1),
        fault("relu experts", _MOE, "activation.kind", layer=0),
        fault("residual missing", _LAYER, "residual.missing", layer=1),
        fault("rope base", f"model.layers.0.{_SDPA}", "rope.base"),
        fault("rotated backwards", f"model.layers.0.{_SDPA}", "rope.direction"),
    ),
)
