"""SegFormer in numpy by somebody who writes Rust: paths for names, channels first and pictures last, no flat tokens."""

from __future__ import annotations

from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from firstdiff.testing.ports.mathematics import gelu, gelu_tanh, softmax
from firstdiff.testing.ports.port import Array, Port, Tap, Weights, Wrong, fault, numpy_port
from firstdiff.testing.zoo.architectures import Architecture

DEPTHS, CHANNELS, HEADS, REDUCTION, PATCH, STRIDE = (1, 2, 1), (16, 24, 32), (2, 3, 4), (4, 2, 1), (7, 3, 3), (4, 2, 2)
STAGES, DECODER, CLASSES, HEIGHT, WIDTH, EPS = 3, 20, 5, 48, 32, 1e-5
StageAndBlock: TypeAlias = tuple[int, int]


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    config = tf.SegformerConfig(
        **{"num_encoder_blocks": STAGES, "depths": DEPTHS, "sr_ratios": REDUCTION, "hidden_sizes": CHANNELS},
        **{"patch_sizes": PATCH, "strides": STRIDE, "num_attention_heads": HEADS, "mlp_ratios": (2,) * STAGES},
        **{"decoder_hidden_size": DECODER, "num_labels": CLASSES, "drop_path_rate": 0.0},
    )
    made: nn.Module = tf.SegformerForSemanticSegmentation(config)
    return made


def pictures(generator: torch.Generator, batch: int) -> dict[str, Any]:
    return {"pixel_values": torch.randn(batch, 3, HEIGHT, WIDTH, generator=generator)}


def segformer(w: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    x = inputs["pixel_values"].transpose(1, 2, 3, 0)  # [c, h, w, n], as everywhere below
    features = []
    for stage in range(STAGES):
        x = patch_embed(w, x, stage, tap, wrong)
        for block in range(DEPTHS[stage]):
            x = transformer_block(w, x, (stage, block), tap, wrong)
        if not wrong("norm of the stage left out", stage):
            x = norm(w, f"segformer.encoder.layer_norm.{stage}", x)
        features.append(tap(f"encoder::stage{stage}::out", x))
    return decode(w, features, tap, wrong).transpose(3, 0, 1, 2)


def patch_embed(w: Weights, x: Array, stage: int, tap: Tap, wrong: Wrong) -> Array:
    name, path = f"segformer.encoder.patch_embeddings.{stage}", f"encoder::stage{stage}::patch_embed"
    half = PATCH[stage] // 2
    before = half - 1 if wrong("patches padded at the end", stage) else half
    x = conv2d(x, w[f"{name}.proj.weight"], w[f"{name}.proj.bias"], STRIDE[stage], (before, 2 * half - before))
    tap(f"{path}::conv", x)
    return tap(path, norm(w, f"{name}.layer_norm", x))


def transformer_block(w: Weights, x: Array, at: StageAndBlock, tap: Tap, wrong: Wrong) -> Array:
    stage, number = at
    index = sum(DEPTHS[:stage]) + number  # of all blocks
    name, path = f"segformer.encoder.block.{stage}.{number}", f"encoder::stage{stage}::block{number}"
    axis: Any = (1, 2) if wrong("normed over pixels", index) else 0
    normed = tap(f"{path}::norm1", norm(w, f"{name}.layer_norm_1", x, axis=axis))
    x = x + tap(f"{path}::attn", attention(w, name, path, normed, at, tap, wrong))
    tap(f"{path}::attn_residual", x)
    second = "layer_norm_1" if wrong("first norm twice", index) else "layer_norm_2"
    h = norm(w, f"{name}.{second}", x)
    h = tap(f"{path}::mix_ffn::expand", linear(w, f"{name}.mlp.dense1", h))
    if wrong("activated before the depthwise convolution", index):
        h = depthwise(w, name, gelu(h), index, wrong)
        tap(f"{path}::mix_ffn::dwconv", h)
    else:
        h = tap(f"{path}::mix_ffn::dwconv", depthwise(w, name, h, index, wrong))
        h = gelu_tanh(h) if wrong("tanh gelu", index) else gelu(h)
    h = linear(w, f"{name}.mlp.dense2", h)
    return tap(path, h if wrong("feed-forward without residual", index) else x + h)


def attention(w: Weights, name: str, path: str, x: Array, at: StageAndBlock, tap: Tap, wrong: Wrong) -> Array:
    """Every pixel asks a smaller picture: [head, size, pixel, picture]."""
    stage, number = at
    index, heads, ratio = sum(DEPTHS[:stage]) + number, HEADS[stage], REDUCTION[stage]
    name, small = f"{name}.attention", x
    if ratio > 1 and not wrong("keys of the whole picture", index):
        if wrong("height for width", index):
            small = small.reshape(x.shape[0], x.shape[2], x.shape[1], x.shape[3])
        small = conv2d(small, w[f"{name}.self.sr.weight"], w[f"{name}.self.sr.bias"], ratio, (0, 0))
        if not wrong("reduced picture not normed", index):
            small = norm(w, f"{name}.self.layer_norm", small)
        tap(f"{path}::attn::reduced", small)
    q, k, v = (
        linear(w, f"{name}.self.{part}", given).reshape(heads, x.shape[0] // heads, -1, x.shape[3])
        for part, given in (("query", x), ("key", small), ("value", small))
    )
    q = q / np.float32(np.sqrt(x.shape[0] if wrong("scaled by all channels", index) else x.shape[0] // heads))
    weights = softmax(np.einsum("hdqn,hdkn->hkqn", q, k), 1)
    tap(f"{path}::attn::weights", weights)
    mixed = np.einsum("hkqn,hdkn->hdqn", weights, v)
    if wrong("heads dealt out", index):
        mixed = mixed.swapaxes(0, 1)
    return linear(w, f"{name}.output.dense", mixed.reshape(x.shape))


def depthwise(w: Weights, name: str, x: Array, index: int, wrong: Wrong) -> Array:
    kernel, bias = w[f"{name}.mlp.dwconv.dwconv.weight"][:, 0], w[f"{name}.mlp.dwconv.dwconv.bias"]
    if wrong("kernel with its axes exchanged", index):
        kernel = kernel.swapaxes(1, 2)
    mode: Any = "edge" if wrong("edges repeated", index) else "constant"
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), mode)
    height, width = x.shape[1:3]
    shifted = (
        kernel[:, i, j, None, None, None] * padded[:, i : i + height, j : j + width] for i in range(3) for j in range(3)
    )
    return np.asarray(sum(shifted) + bias[:, None, None, None])


def decode(w: Weights, features: list[Array], tap: Tap, wrong: Wrong) -> Array:
    height, width = features[0].shape[1:3]
    parts = []
    for stage, feature in enumerate(features):
        part = linear(w, f"decode_head.linear_c.{stage}.proj", feature)
        tap(f"decoder::project{stage}", part)
        if stage:
            rows = resize_matrix(part.shape[1], height, stage, wrong)
            columns = resize_matrix(part.shape[2], width, stage, wrong)
            part = tap(f"decoder::resize{stage}", np.einsum("yh,chwn,xw->cyxn", rows, part, columns))
        parts.append(part)
    if not wrong("stages in the order of the encoder"):
        parts.reverse()
    x = tap("decoder::fuse", np.tensordot(w["decode_head.linear_fuse.weight"][:, :, 0, 0], np.concatenate(parts), 1))
    name = "decode_head.batch_norm"
    mean, variance = w[f"{name}.running_mean"], w[f"{name}.running_var"]
    if wrong("statistics of the batch"):
        mean, variance = x.mean((1, 2, 3)), x.var((1, 2, 3))
    factor = w[f"{name}.weight"] / np.sqrt(variance + np.float32(1e-3 if wrong("eps of Keras") else EPS))
    x = x * factor[:, None, None, None] + (w[f"{name}.bias"] - mean * factor)[:, None, None, None]
    x = tap("decoder::relu", np.maximum(x, 0))
    x = np.tensordot(w["decode_head.classifier.weight"][:, :, 0, 0], x, 1)
    return tap("logits", x + w["decode_head.classifier.bias"][:, None, None, None])


def resize_matrix(given: int, wanted: int, stage: int, wrong: Wrong) -> Array:
    """What each wanted row takes of the given ones."""
    if wrong("corners aligned", stage):
        at = np.linspace(0, given - 1, wanted)
    else:
        at = ((np.arange(wanted) + 0.5) * given / wanted - 0.5).clip(0, given - 1)
    return np.maximum(0, 1 - np.abs(at[:, None] - np.arange(given))).astype(np.float32)


def conv2d(x: Array, kernel: Array, bias: Array, stride: int, padding: tuple[int, int]) -> Array:
    size = kernel.shape[2]
    padded = np.pad(x, ((0, 0), padding, padding, (0, 0)))
    height, width = ((length - size) // stride + 1 for length in padded.shape[1:3])
    total = np.zeros((len(kernel), height, width, x.shape[3]), np.float32)
    for i in range(size):
        for j in range(size):
            taken = padded[:, i : i + stride * height : stride, j : j + stride * width : stride]
            total += np.tensordot(kernel[:, :, i, j], taken, 1)
    return total + bias[:, None, None, None]


def linear(w: Weights, name: str, x: Array) -> Array:
    """Channels are the first axis of both."""
    return np.tensordot(w[f"{name}.weight"], x, 1) + w[f"{name}.bias"].reshape(-1, *(1,) * (x.ndim - 1))


def norm(w: Weights, name: str, x: Array, axis: Any = 0) -> Array:
    scaled = (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + np.float32(EPS))
    return np.asarray(scaled * w[f"{name}.weight"][:, None, None, None] + w[f"{name}.bias"][:, None, None, None])


_E = "segformer.encoder"
_B = "segformer.encoder.block"
_D = "decode_head"
PORT = Port(
    name="segformer",
    half="open",
    style="numpy, paths for names, channels first and pictures last, bilinear resizing by matrices",
    build=lambda: Architecture("segformer", reference, pictures).build(63),
    result=lambda output: output.logits,
    run=numpy_port(segformer),
    faults=(
        fault(
            "patches padded at the end",
            f"{_E}.patch_embeddings.1.proj",
            "conv.padding conv.stride shift.sequence",
            layer=1,
        ),
        fault("norm of the stage left out", f"{_E}.layer_norm.0", "op.skipped", layer=0),
        fault("normed over pixels", f"{_B}.2.0.layer_norm_1", "norm.kind", layer=3),
        fault("height for width", f"{_B}.0.0.attention.self.layer_norm", "layout.reshape layout.transpose", layer=0),
        fault("reduced picture not normed", f"{_B}.1.0.attention.self.layer_norm", "op.skipped", layer=1),
        fault("keys of the whole picture", f"{_B}.1.1.attention.self.softmax", "op.skipped", layer=2),
        fault("scaled by all channels", f"{_B}.2.0.attention.self.softmax", "attention.scale", layer=3),
        fault(
            "heads dealt out",
            f"{_B}.1.0.attention.output",
            "layout.head_order layout.reshape layout.transpose layout.interleave",
            layer=1,
        ),
        fault("first norm twice", f"{_B}.1.0.mlp.dense1", "weights.differ scale.channel", layer=1),
        fault("activated before the depthwise convolution", f"{_B}.0.0.mlp.dwconv", "activation.extra", layer=0),
        fault("kernel with its axes exchanged", f"{_B}.1.1.mlp.dwconv", "weights.transposed", layer=2),
        fault("edges repeated", f"{_B}.2.0.mlp.dwconv", "conv.padding", layer=3),
        fault("tanh gelu", f"{_B}.0.0", "activation.kind", layer=0),
        fault("feed-forward without residual", f"{_B}.1.1", "residual.missing", layer=2),
        fault("corners aligned", f"{_D}.interpolate@1", "resize.mode", layer=1),
        fault("stages in the order of the encoder", f"{_D}.linear_fuse", "layout.chunk_swap layout.head_order"),
        fault("statistics of the batch", f"{_D}.activation", "norm.batch_statistics"),
        fault("eps of Keras", f"{_D}.activation", "norm.eps"),
    ),
)
