"""DeBERTa-v2 in numpy with few taps, saved as numbered files: heads folded into the batch, names of a TF checkpoint."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import nn

from firstdiff.testing.ports.mathematics import gelu, gelu_tanh, layer_norm, softmax
from firstdiff.testing.ports.port import Array, Port, Tap, Weights, Wrong, fault, files_port
from firstdiff.testing.zoo.architectures import Architecture

D, H, FF, N, V, T, BUCKETS, FAR, LABELS = 32, 4, 48, 3, 66, 12, 4, 16, 4
SIZE, EPS = D // H, 1e-7


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    config = tf.DebertaV2Config(
        **{"vocab_size": V, "hidden_size": D, "num_hidden_layers": N, "num_attention_heads": H, "type_vocab_size": 0},
        **{"intermediate_size": FF, "max_position_embeddings": 40, "relative_attention": True, "num_labels": LABELS},
        **{"position_buckets": BUCKETS, "max_relative_positions": FAR, "norm_rel_ebd": "layer_norm"},
        **{"share_att_key": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its module uses torch.jit.script
        made: nn.Module = tf.DebertaV2ForTokenClassification(config)
    return made


def sentences(generator: torch.Generator, batch: int) -> dict[str, Any]:
    ids = torch.randint(4, V, (batch, T), generator=generator)
    mask = torch.ones_like(ids)
    mask[-1, 9:] = 0
    return {"input_ids": ids, "attention_mask": mask}


def deberta(w: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    x = w["deberta.embeddings.word_embeddings.weight"][inputs["input_ids"]]
    x = norm(w, "deberta.embeddings.LayerNorm", x)
    keep = inputs["attention_mask"].astype(np.float32)
    if not wrong("embeddings of padding kept"):
        x = x * keep[:, :, None]
    tap("bert_embeddings", x)
    rel = w["deberta.encoder.rel_embeddings.weight"]
    if not wrong("relative embeddings not normed"):
        rel = norm(w, "deberta.encoder.LayerNorm", rel)
    tap("bert_encoder_rel_embeddings", rel)
    seen = keep[:, None, :] * (1 if wrong("only keys masked") else keep[:, :, None])
    for n in range(N):
        x = layer(w, x, rel, np.repeat(seen, H, 0) if seen.shape[1] == T else seen.repeat(H, 0), n, tap, wrong)
    return tap("logits", x @ w["classifier.weight"].T + w["classifier.bias"])


def layer(w: Weights, x: Array, rel: Array, seen: Array, n: int, tap: Tap, wrong: Wrong) -> Array:
    name = f"deberta.encoder.layer.{n}"
    mixed = tap(
        f"bert_encoder_layer_{n}_attention_self", attention(w, f"{name}.attention.self", x, rel, seen, n, wrong)
    )
    out = linear(w, f"{name}.attention.output.dense", mixed, transposed=wrong("output weight transposed", n))
    eps = 1e-2 if wrong("eps of the norm", n) else EPS
    out = out if wrong("attention without residual", n) else out + x
    x = tap(f"bert_encoder_layer_{n}_attention_output", norm(w, f"{name}.attention.output.LayerNorm", out, eps))
    source = f"deberta.encoder.layer.{n - 1}" if wrong("feed-forward of the layer before", n) else name
    h = linear(w, f"{source}.intermediate.dense", x)
    h = gelu_tanh(h) if wrong("tanh gelu", n) else gelu(h)
    h = linear(w, f"{source}.output.dense", h)
    if wrong("norm before the residual", n):
        x = x + norm(w, f"{name}.output.LayerNorm", h)
    else:
        x = norm(w, f"{name}.output.LayerNorm", x + h)
    return tap(f"bert_encoder_layer_{n}_output", x)


def attention(w: Weights, name: str, x: Array, rel: Array, seen: Array, n: int, wrong: Wrong) -> Array:
    """What tokens say to tokens, tokens to distances and distances to tokens."""
    q, k, v = (folded(linear(w, f"{name}.{part}_proj", x)) for part in ("query", "key", "value"))
    if wrong("queries and keys swapped", n):
        q, k = k, q
    biased = not wrong("distances without bias", n)
    rel_q, rel_k = (folded(linear(w, f"{name}.{part}_proj", rel[None], biased=biased)) for part in ("query", "key"))
    distance = buckets(x.shape[1], n, wrong)
    span = BUCKETS - 1 if wrong("middle bucket one off", n) else BUCKETS
    forth, back = (np.clip(sign * distance + span, 0, 2 * BUCKETS - 1)[None] for sign in (1, -1))
    if wrong("distances counted backwards", n):
        forth, back = back, forth
    batch = x.shape[0]
    scores = q @ k.swapaxes(1, 2)
    to_distance = q @ np.tile(rel_k, (batch, 1, 1)).swapaxes(1, 2)
    scores = scores + np.take_along_axis(to_distance, np.repeat(forth, batch * H, 0), 2)
    of_distance = k @ np.tile(rel_q, (batch, 1, 1)).swapaxes(1, 2)
    of_distance = np.take_along_axis(of_distance, np.repeat(back, batch * H, 0), 2)
    if not wrong("distances to tokens left out", n):
        scores = scores + (of_distance if wrong("distances not transposed", n) else of_distance.swapaxes(1, 2))
    scores = scores / np.float32(np.sqrt(SIZE if wrong("scaled as without distances", n) else 3 * SIZE))
    scores = np.where(seen > 0, scores, np.finfo(np.float32).min)
    mixed = softmax(scores) @ v
    return mixed.reshape(batch, H, -1, SIZE).swapaxes(1, 2).reshape(x.shape)


def buckets(tokens: int, n: int, wrong: Wrong) -> Array:
    """Small distances as they are, larger ones by their logarithm."""
    distance = np.arange(tokens)[:, None] - np.arange(tokens)
    if wrong("distances cut off instead of bucketed", n):
        return distance.clip(-BUCKETS, BUCKETS)
    middle = BUCKETS // 2
    size = np.maximum(np.abs(distance), middle).astype(np.float32)
    far = np.ceil(np.log(size / middle) / np.log((FAR - 1) / middle) * (middle - 1)) + middle
    return np.where(np.abs(distance) <= middle, distance, np.sign(distance) * far).astype(np.int64)


def folded(x: Array) -> Array:
    return x.reshape(*x.shape[:2], H, SIZE).swapaxes(1, 2).reshape(-1, x.shape[1], SIZE)


def linear(w: Weights, name: str, x: Array, *, biased: bool = True, transposed: bool = False) -> Array:
    weight = w[f"{name}.weight"]
    return np.asarray(x @ (weight if transposed else weight.T) + (w[f"{name}.bias"] if biased else 0))


def norm(w: Weights, name: str, x: Array, eps: float = EPS) -> Array:
    return layer_norm(x, w[f"{name}.weight"], w[f"{name}.bias"], eps)


_L = "deberta.encoder.layer.{n}"
_A = "deberta.encoder.layer.{n}.attention.self"
PORT = Port(
    name="deberta",
    half="open",
    style="numpy, few taps, numbered .npy files, heads folded into the batch",
    build=lambda: Architecture("deberta", reference, sentences).build(55),
    result=lambda output: output.logits,
    run=files_port(deberta),
    faults=(
        fault("embeddings of padding kept", "deberta.embeddings", "attention.mask op.skipped"),
        fault("relative embeddings not normed", "deberta.encoder.LayerNorm", "op.skipped"),
        fault("only keys masked", "deberta.encoder.layer.0.attention.self", "attention.mask"),
        fault("output weight transposed", f"{_L}.attention.output", "weights.transposed", layer=1),
        fault("eps of the norm", f"{_L}.attention.output", "norm.eps", layer=2),
        fault("attention without residual", f"{_L}.attention.output", "residual.missing", layer=0),
        fault("feed-forward of the layer before", f"{_L}.output", "weights.differ", layer=2),
        fault("tanh gelu", f"{_L}.output", "activation.kind", layer=0),
        fault("norm before the residual", f"{_L}.output", "", layer=1),
        fault("queries and keys swapped", _A, "layout.qkv_order layout.chunk_swap weights.differ", layer=2),
        fault("distances without bias", _A, "bias.missing", layer=1),
        fault("middle bucket one off", _A, "position.offset", layer=0),
        fault("distances counted backwards", _A, "sign.flip position.offset", layer=1),
        fault("distances to tokens left out", _A, "op.skipped", layer=2),
        fault("distances not transposed", _A, "layout.transpose", layer=0),
        fault("scaled as without distances", _A, "attention.scale", layer=1),
        fault("distances cut off instead of bucketed", _A, "position.offset", layer=2),
    ),
)
