"""BERT in numpy with the names of its TensorFlow checkpoints: tokens first, one product for q, k and v."""

from __future__ import annotations

import numpy as np
import torch

from firstdiff.testing.ports.mathematics import gelu, gelu_tanh, layer_norm, softmax
from firstdiff.testing.ports.port import Array, Port, Tap, Weights, Wrong, fault, numpy_port
from firstdiff.testing.zoo.architectures import ARCHITECTURES

HEADS, SIZE, LAYERS, EPS = 4, 8, 3, 1e-12


def bert(w: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    ids = inputs["input_ids"].T
    x = embeddings(w, ids, tap, wrong)
    first = x
    hidden = np.zeros_like(ids, bool) if wrong("padding not masked") else inputs["attention_mask"].T == 0
    bias = np.where(hidden, np.float32(-10000.0), np.float32(0))
    if wrong("mask of 1 and 0 added as it is"):
        bias = np.where(hidden, np.float32(0), np.float32(1)) * 2
    for i in range(LAYERS):
        scope, theirs = f"bert/encoder/layer_{i}", f"encoder.layer.{i}"
        mixed = attention(w, x, bias, i, tap, wrong)
        dense = tap(f"{scope}/attention/output/dense", linear(w, f"{theirs}.attention.output.dense", mixed))
        source = first if wrong("residual from the embeddings", i) else x
        if wrong("norm before the sum", i):
            y = source + norm(w, f"{theirs}.attention.output.LayerNorm", dense)
        else:
            eps = 1e-3 if wrong("norm eps", i) else EPS
            name = f"{theirs}.attention.output.LayerNorm"
            y = norm(w, name, source + dense, eps, ddof=1 if wrong("unbiased variance", i) else 0)
        y = tap(f"{scope}/attention/output/LayerNorm", y)
        inner = linear(w, f"{theirs}.intermediate.dense", y)
        inner = tap(f"{scope}/intermediate", gelu_tanh(inner) if wrong("tanh gelu") else gelu(inner))
        dense = tap(f"{scope}/output/dense", linear(w, f"{theirs}.output.dense", inner))
        x = tap(f"{scope}/output/LayerNorm", norm(w, f"{theirs}.output.LayerNorm", y + dense))
    tap("bert/sequence_output", x)
    chosen = x[-1] if wrong("pooler takes the last token") else x[0]
    pooled = linear(w, "pooler.dense", chosen)
    pooled = tap("bert/pooler", pooled if wrong("pooler without tanh") else np.tanh(pooled))
    return np.concatenate([x.swapaxes(0, 1).ravel(), pooled.ravel()])


def embeddings(w: Weights, ids: Array, tap: Tap, wrong: Wrong) -> Array:
    words = tap("bert/embeddings/word", w["embeddings.word_embeddings.weight"][ids])
    start = 2 if wrong("positions from 2") else 0
    positions = w["embeddings.position_embeddings.weight"][start : start + len(ids)]
    types = w["embeddings.token_type_embeddings.weight"][0]
    summed = words + positions[:, None] + (0 if wrong("token types left out") else types)
    summed = tap("bert/embeddings/sum", summed)
    return tap("bert/embeddings/LayerNorm", norm(w, "embeddings.LayerNorm", summed))


def attention(w: Weights, x: Array, bias: Array, i: int, tap: Tap, wrong: Wrong) -> Array:
    tokens, batch, width = x.shape
    parts = [f"encoder.layer.{i}.attention.self.{part}" for part in ("query", "key", "value")]
    weight = np.concatenate([w[f"{part}.weight"] for part in parts])
    shift = np.concatenate([w[f"{part}.bias"] for part in parts])
    if wrong("value bias missing", i):
        shift[2 * width :] = 0
    if wrong("query weight transposed", i):
        weight[:width] = weight[:width].T.copy()
    fused = tap(f"bert/encoder/layer_{i}/attention/qkv", x @ weight.T + shift)
    q, k, v = (part.reshape(tokens, batch, HEADS, SIZE) for part in np.split(fused, 3, axis=-1))
    scale = width**-0.5 if wrong("scaled by the width") else SIZE**-0.5
    scores = np.einsum("ibhd,jbhd->bhij", q, k) * np.float32(scale) + bias.T[:, None, None]
    probabilities = tap(f"bert/encoder/layer_{i}/attention/probs", softmax(scores))
    mixed = np.einsum("bhij,jbhd->ibhd", probabilities, v).reshape(tokens, batch, width)
    return tap(f"bert/encoder/layer_{i}/attention/context", mixed)


def linear(w: Weights, name: str, x: Array) -> Array:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def norm(w: Weights, name: str, x: Array, eps: float = EPS, ddof: int = 0) -> Array:
    return layer_norm(x, w[f"{name}.weight"], w[f"{name}.bias"], eps, ddof)


_LAYER = "encoder.layer.{n}"
_CONTEXT = "encoder.layer.0.attention.self.scaled_dot_product_attention"
PORT = Port(
    name="bert",
    half="open",
    style="numpy taps, names of a TensorFlow checkpoint, tokens first, fused q, k, v",
    build=lambda: ARCHITECTURES["bert"].build(13),
    result=lambda output: torch.cat([output.last_hidden_state.flatten(), output.pooler_output.flatten()]),
    run=numpy_port(bert),
    faults=(
        fault("padding not masked", _CONTEXT, "attention.mask"),
        fault("mask of 1 and 0 added as it is", _CONTEXT, "attention.mask"),
        fault("residual from the embeddings", f"{_LAYER}.attention.output.LayerNorm", "residual.missing", layer=2),
        fault("norm before the sum", f"{_LAYER}.attention.output.LayerNorm", "norm.kind", layer=1),
        fault("norm eps", f"{_LAYER}.attention.output.LayerNorm", "norm.eps", layer=2),
        fault("unbiased variance", f"{_LAYER}.attention.output.LayerNorm", "norm.variance scale.constant", layer=0),
        fault("tanh gelu", "encoder.layer.0.intermediate", "activation.kind"),
        fault("pooler takes the last token", "pooler.dense:in.0 pooler", "shift.sequence"),
        fault("pooler without tanh", "pooler", "activation.missing"),
        fault("positions from 2", "embeddings.add@1", "position.offset"),
        fault("token types left out", "embeddings.add@1", "bias.missing offset.channel"),
        fault("value bias missing", f"{_LAYER}.attention.self.value", "bias.missing", layer=1),
        fault("query weight transposed", f"{_LAYER}.attention.self.query", "weights.transposed", layer=2),
        fault("scaled by the width", _CONTEXT, "attention.scale"),
    ),
)
