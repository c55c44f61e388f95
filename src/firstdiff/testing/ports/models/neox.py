"""GPT-NeoX in numpy as a table of functions: heads cut out of the fused product, rotary channels of each head apart."""

from __future__ import annotations

import numpy as np

from firstdiff.testing.ports.mathematics import causal, gelu, gelu_tanh, layer_norm, softmax
from firstdiff.testing.ports.port import Array, Port, Tap, Weights, Wrong, fault, numpy_port
from firstdiff.testing.zoo.architectures import ARCHITECTURES

BLOCKS, HEADS, SIZE, TURNED, EPS = 2, 6, 8, 2, 1e-5


def neox(w: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    rows = [run_row(w, ids, wrong) for ids in inputs["input_ids"]]
    for name in rows[0]:
        tap(name, np.stack([row[name] for row in rows]))
    return np.stack([row["logits"] for row in rows])


def run_row(w: Weights, ids: Array, wrong: Wrong) -> dict[str, Array]:
    """One text after the other, every value kept by name."""
    kept = {"wte": w["gpt_neox.embed_in.weight"][ids]}
    x = kept["wte"]
    for b in range(BLOCKS):
        p = {name.split(f"layers.{b}.")[1]: values for name, values in w.items() if f"layers.{b}." in name}
        x = block(p, x, b, kept, wrong)
        kept[f"h{b}"] = x
    eps = 1e-2 if wrong("final norm eps") else EPS
    kept["ln_f"] = layer_norm(x, w["gpt_neox.final_layer_norm.weight"], w["gpt_neox.final_layer_norm.bias"], eps)
    source = w["gpt_neox.embed_in.weight"] if wrong("output tied to embedding") else w["embed_out.weight"]
    kept["logits"] = kept["ln_f"] @ source.T
    return kept


def block(p: Weights, x: Array, b: int, kept: dict[str, Array], wrong: Wrong) -> Array:
    kept[f"h{b}.ln1"] = layer_norm(x, p["input_layernorm.weight"], p["input_layernorm.bias"], EPS)
    attended = attention(p, kept[f"h{b}.ln1"], b, kept, wrong)
    source = x + attended if wrong("one after the other", b) else x
    if wrong("first norm for both", b):
        normed = kept[f"h{b}.ln1"]
    else:
        normed = layer_norm(source, p["post_attention_layernorm.weight"], p["post_attention_layernorm.bias"], EPS)
    kept[f"h{b}.ln2"] = normed
    up = normed @ p["mlp.dense_h_to_4h.weight"].T + p["mlp.dense_h_to_4h.bias"]
    act = gelu_tanh(up) if wrong("tanh gelu", b) else gelu(up)
    kept[f"h{b}.mlp.act"] = act
    down = act @ p["mlp.dense_4h_to_h.weight"].T
    if not wrong("bias missing", b):
        down = down + p["mlp.dense_4h_to_h.bias"]
    kept[f"h{b}.mlp.out"] = down
    if wrong("residual added twice", b):
        return x + attended + x + down
    return x + attended + down


def attention(p: Weights, x: Array, b: int, kept: dict[str, Array], wrong: Wrong) -> Array:
    tokens = len(x)
    fused = x @ p["attention.query_key_value.weight"].T + p["attention.query_key_value.bias"]
    if wrong("q, k and v cut before heads", b):
        q, k, v = fused.reshape(tokens, 3, HEADS, SIZE).transpose(1, 2, 0, 3)
    else:
        q, k, v = fused.reshape(tokens, HEADS, 3, SIZE).transpose(2, 1, 0, 3)
    if wrong("k and v swapped", b):
        k, v = v, k
    kept[f"h{b}.q"], kept[f"h{b}.k"], kept[f"h{b}.v"] = q, k, v
    turned = SIZE if wrong("all channels rotated", b) else TURNED
    q, k = rotate(q, turned, wrong), rotate(k, turned, wrong)
    if wrong("rotary channels last", b):
        q = np.roll(q, -TURNED, axis=-1)
    kept[f"h{b}.q_rot"], kept[f"h{b}.k_rot"] = q, k
    scores = q @ k.swapaxes(1, 2) / np.float32(np.sqrt(SIZE))
    hidden = causal(tokens)
    scores = np.where(hidden.T if wrong("mask transposed", b) else hidden, np.float32(-1e9), scores)
    kept[f"h{b}.p"] = softmax(scores)
    merged = (kept[f"h{b}.p"] @ v).transpose(1, 0, 2).reshape(tokens, -1)
    weight = p["attention.dense.weight"]
    kept[f"h{b}.attn"] = (
        merged @ (weight if wrong("square weight transposed", b) else weight.T) + p["attention.dense.bias"]
    )
    return kept[f"h{b}.attn"]


def rotate(x: Array, turned: int, wrong: Wrong) -> Array:
    frequencies = 10_000.0 ** (-np.arange(0, turned, 2) / turned)
    angles = np.arange(x.shape[1])[:, None] * frequencies
    if wrong("angles in degrees"):
        angles = angles * 180 / np.pi
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    one, two = x[..., : turned // 2], x[..., turned // 2 : turned]
    return np.concatenate([one * cos - two * sin, two * cos + one * sin, x[..., turned:]], -1)


_LAYER = "gpt_neox.layers.{n}"
_ATTENTION = "gpt_neox.layers.{n}.attention"
PORT = Port(
    name="neox",
    half="open",
    style="numpy, texts one by one, flat names, recorded at the end",
    build=lambda: ARCHITECTURES["neox"].build(21),
    result=lambda output: output.logits,
    run=numpy_port(neox),
    faults=(
        fault("final norm eps", "gpt_neox.final_layer_norm", "norm.eps"),
        fault("output tied to embedding", "embed_out", "weights.differ"),
        fault("one after the other", f"{_LAYER}.post_attention_layernorm", "residual.missing", layer=1),
        fault(
            "first norm for both",
            f"{_LAYER}.post_attention_layernorm",
            "weights.differ norm.affine scale.channel",
            layer=0,
        ),
        fault("tanh gelu", f"{_LAYER}.mlp.act", "activation.kind", layer=0),
        fault("bias missing", f"{_LAYER}.mlp", "bias.missing", layer=1),
        fault("residual added twice", _LAYER, "op.repeated residual.missing", layer=0),
        fault(
            "q, k and v cut before heads",
            f"{_ATTENTION}.chunk",
            "layout.qkv_order layout.head_order layout.reshape",
            layer=0,
        ),
        fault("k and v swapped", f"{_ATTENTION}.chunk:out.1", "layout.qkv_order layout.chunk_swap", layer=1),
        fault("all channels rotated", f"{_ATTENTION}.cat@2", "", layer=1),
        fault("rotary channels last", f"{_ATTENTION}.cat@2 {_ATTENTION}.matmul", "layout.chunk_swap", layer=0),
        fault("mask transposed", f"{_ATTENTION}.softmax", "attention.mask", layer=1),
        fault("square weight transposed", f"{_ATTENTION}.dense", "weights.transposed", layer=1),
        fault("angles in degrees", "gpt_neox.layers.0.attention.cat@2", "rope.base scale.constant"),
    ),
)
