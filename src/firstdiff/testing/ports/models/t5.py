"""T5 in numpy with a dozen taps: one function for both stacks, position buckets counted by hand."""

from __future__ import annotations

import math

import numpy as np

from firstdiff.testing.ports.mathematics import causal, gelu, rms_norm, softmax
from firstdiff.testing.ports.port import Array, Port, Tap, Weights, Wrong, fault, numpy_port
from firstdiff.testing.zoo.architectures import ARCHITECTURES

LAYERS, HEADS, SIZE, BUCKETS, FARTHEST, EPS = 2, 4, 8, 32, 128, 1e-6


def t5(w: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    shared = w["shared.weight"]
    keep = inputs["attention_mask"] != 0
    hidden = ~keep[:, None, None]
    source = tap("enc_embed", shared[inputs["input_ids"]])
    encoded = tap("enc_out", stack(w, "encoder", source, hidden, None, tap, wrong))
    target_ids = inputs["decoder_input_ids"]
    if wrong("targets not shifted"):
        target_ids = np.roll(target_ids, -1, axis=1)
    target = tap("dec_embed", shared[target_ids])
    if wrong("padding seen by the decoder"):
        hidden = np.zeros_like(hidden)
    decoded = stack(w, "decoder", target, hidden, encoded, tap, wrong)
    if wrong("output scaled as if tied"):
        decoded = decoded * np.float32(shared.shape[1] ** -0.5)
    decoded = tap("dec_out", decoded)
    return tap("logits", decoded @ w["lm_head.weight"].T)


def stack(w: Weights, side: str, x: Array, hidden: Array, memory: Array | None, tap: Tap, wrong: Wrong) -> Array:
    tokens = x.shape[1]
    table = w[f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
    distance = np.arange(tokens)[None] - np.arange(tokens)[:, None]
    if side == "encoder" and wrong("distance the other way"):
        distance = -distance
    both_ways = memory is None or wrong("decoder buckets in both directions")
    bias = table[buckets(distance, both_ways, side, wrong)].transpose(2, 0, 1)
    for i in range(LAYERS):
        name = f"{side}.block.{i}.layer"
        own = hidden if memory is None else causal(tokens)
        if memory is not None and wrong("decoder not causal", i):
            own = np.zeros_like(own)
        normed = norm(w, f"{name}.0.layer_norm", x)
        no_bias = side == "encoder" and wrong("bias in the first layer only", i)
        attended = attend(w, f"{name}.0.SelfAttention", normed, normed, own, 0 if no_bias else bias, side, wrong)
        x = x + attended
        if side == "encoder":
            tap(f"enc_{i}_attn", x)
        if memory is not None:
            asked = norm(w, f"{name}.1.layer_norm", x)
            remembered = asked if wrong("cross attention to itself", i) else memory
            mask = causal(tokens) if wrong("cross attention to itself", i) else hidden
            x = x + attend(w, f"{name}.1.EncDecAttention", asked, remembered, mask, 0, side, wrong)
            tap(f"dec_{i}_cross", x)
        last = f"{name}.{2 if memory is not None else 1}"
        normed = norm(w, f"{last}.layer_norm", x)
        if side == "encoder" and wrong("layer norm for rms norm", i):
            normed = norm(w, f"{last}.layer_norm", x - x.mean(-1, keepdims=True))
        inner = normed @ w[f"{last}.DenseReluDense.wi.weight"].T
        inner = gelu(inner) if wrong("gelu for relu") else np.maximum(inner, 0)
        x = x + inner @ w[f"{last}.DenseReluDense.wo.weight"].T
        tap(f"{side[:3]}_{i}", x)
    if side == "encoder" and wrong("final norm missing"):
        return x
    return norm(w, f"{side}.final_layer_norm", x)


def attend(
    w: Weights, name: str, x: Array, memory: Array, hidden: Array, bias: Array | int, side: str, wrong: Wrong
) -> Array:
    q = heads(x @ w[f"{name}.q.weight"].T)
    k = heads(memory @ w[f"{name}.k.weight"].T)
    v = heads(memory @ w[f"{name}.v.weight"].T)
    scores = q @ k.swapaxes(-1, -2)
    if side == "encoder" and wrong("scores scaled"):
        scores = scores / np.float32(math.sqrt(SIZE))
    scores = np.where(hidden, np.float32(-1e9), scores + bias)
    mixed = (softmax(scores) @ v).transpose(0, 2, 1, 3)
    return mixed.reshape(*mixed.shape[:2], -1) @ w[f"{name}.o.weight"].T


def heads(x: Array) -> Array:
    return x.reshape(*x.shape[:2], HEADS, SIZE).transpose(0, 2, 1, 3)


def norm(w: Weights, name: str, x: Array) -> Array:
    return rms_norm(x, w[f"{name}.weight"], EPS)


def buckets(distance: Array, both_ways: bool, side: str, wrong: Wrong) -> Array:
    """Near distances one by one, far ones in ever wider buckets."""
    count = BUCKETS // 2 if both_ways else BUCKETS
    found = np.where(distance > 0, count, 0) if both_ways else np.zeros_like(distance)
    far = np.abs(distance) if both_ways else np.maximum(-distance, 0)
    exact = count // 2
    if side == "encoder" and wrong("half as many exact buckets"):
        exact //= 2
    ratio = np.log(np.maximum(far, 1) / exact) / math.log(FARTHEST / exact)
    wide = np.minimum(exact + (ratio * (count - exact)).astype(int), count - 1)
    return np.asarray(found + np.where(far < exact, far, wide))


_ENCODER, _DECODER = "encoder.block.{n}", "decoder.block.{n}"
_FIRST = "encoder.block.0.layer.0"
PORT = Port(
    name="t5",
    half="open",
    style="numpy, a dozen taps, one function for both stacks",
    build=lambda: ARCHITECTURES["t5"].build(22),
    result=lambda output: output.logits,
    run=numpy_port(t5),
    faults=(
        fault("targets not shifted", "shared@1 shared@1:in.0 decoder:in.input_ids", "ids.mismatch shift.sequence"),
        fault("padding seen by the decoder", "decoder.block.0.layer.1", "attention.mask"),
        fault("output scaled as if tied", "decoder:out.last_hidden_state lm_head:in.0", "scale.constant"),
        fault("distance the other way", _FIRST, "position.offset"),
        fault("decoder buckets in both directions", "decoder.block.0.layer.1", ""),
        fault("decoder not causal", f"{_DECODER}.layer.1", "attention.mask", layer=1),
        fault("bias in the first layer only", f"{_ENCODER}.layer.0", "", layer=1),
        fault("cross attention to itself", f"{_DECODER}.layer.1", "", layer=0),
        fault("layer norm for rms norm", _ENCODER, "norm.kind", layer=1),
        fault("gelu for relu", "encoder.block.0", "activation.kind"),
        fault("final norm missing", "encoder:out.last_hidden_state", "op.skipped"),
        fault("scores scaled", _FIRST, "attention.scale"),
        fault("half as many exact buckets", _FIRST, ""),
    ),
)
