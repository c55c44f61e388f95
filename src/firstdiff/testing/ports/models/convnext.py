"""ConvNeXt in numpy the way of JAX code: channels last, kernels as sums of shifted pictures, cryptic names."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import nn

from firstdiff.testing.ports.mathematics import gelu, layer_norm, sigmoid
from firstdiff.testing.ports.port import Array, Port, Tap, Weights, Wrong, fault, numpy_port
from firstdiff.testing.zoo.architectures import Architecture

SIZES, DEPTHS = (8, 12), (2, 1)


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    config = tf.ConvNextConfig(
        hidden_sizes=list(SIZES), depths=list(DEPTHS), num_stages=2, image_size=32, num_labels=5, patch_size=4
    )
    made: nn.Module = tf.ConvNextForImageClassification(config)
    return made


def pictures(generator: torch.Generator, batch: int) -> dict[str, Any]:
    return {"pixel_values": torch.randn(batch, 3, 32, 24, generator=generator)}


def convnext(w: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    x = inputs["pixel_values"].transpose(0, 2, 3, 1)
    if wrong("blue first"):
        x = x[..., ::-1]
    x = patches(w, "convnext.embeddings.patch_embeddings", x, 4, rows_first=not wrong("kernel turned"))
    x = tap("st", norm(w, "convnext.embeddings.layernorm", x, 1e-6))
    for i, depth in enumerate(DEPTHS):
        name = f"convnext.encoder.stages.{i}"
        if i:
            if not wrong("no norm before halving"):
                x = norm(w, f"{name}.downsampling_layer.0", x, 1e-6)
            x = tap(f"d{i}", patches(w, f"{name}.downsampling_layer.1", x, 2))
        for j in range(depth):
            x = block(w, f"{name}.layers.{j}", x, f"b{i}{j}", tap, wrong)
    x = x.max((1, 2)) if wrong("maximum instead of mean") else x.mean((1, 2))
    x = tap("f", norm(w, "convnext.layernorm", x, 1e-2 if wrong("eps of the last norm") else 1e-12))
    return tap("y", x @ w["classifier.weight"].T + w["classifier.bias"])


def block(w: Weights, name: str, x: Array, short: str, tap: Tap, wrong: Wrong) -> Array:
    first = short == "b01"
    kernel = w[f"{name}.dwconv.weight"][:, 0]
    if wrong("kernel flipped") and first:
        kernel = kernel[:, ::-1, ::-1]
    mode = "edge" if wrong("edges repeated") and first else "constant"
    padded = np.pad(x, ((0, 0), (3, 3), (3, 3), (0, 0)), mode=mode)  # type: ignore[call-overload]
    height, width = x.shape[1:3]
    y = (
        sum(padded[:, a : a + height, b : b + width] * kernel[:, a, b] for a in range(7) for b in range(7))
        + w[f"{name}.dwconv.bias"]
    )
    tap(f"{short}a", y)
    y = norm(w, f"{name}.layernorm", y, 1e-6)
    y = y @ w[f"{name}.pwconv1.weight"].T + w[f"{name}.pwconv1.bias"]
    y = tap(f"{short}b", y * sigmoid(1.702 * y) if wrong("quick gelu") else gelu(y))
    y = y @ w[f"{name}.pwconv2.weight"].T + w[f"{name}.pwconv2.bias"]
    if not (wrong("layer scale missing") and first):
        y = y * w[f"{name}.layer_scale_parameter"]
    return tap(f"{short}o", y if wrong("no residual") and first else x + y)


def patches(w: Weights, name: str, x: Array, size: int, *, rows_first: bool = True) -> Array:
    b, height, width, channels = x.shape
    x = x.reshape(b, height // size, size, width // size, size, channels)
    x = x.transpose(0, 1, 3, 2, 4, 5) if rows_first else x.transpose(0, 1, 3, 4, 2, 5)
    kernel = w[f"{name}.weight"].transpose(2, 3, 1, 0).reshape(size * size * channels, -1)
    return np.asarray(x.reshape(*x.shape[:3], -1) @ kernel + w[f"{name}.bias"])


def norm(w: Weights, name: str, x: Array, eps: float) -> Array:
    return layer_norm(x, w[f"{name}.weight"], w[f"{name}.bias"], eps)


_E = "convnext.embeddings"
_B = "convnext.encoder.stages.0.layers.1"
PORT = Port(
    name="convnext",
    half="open",
    style="numpy taps, channels last, cryptic names",
    build=lambda: Architecture("convnext", reference, pictures).build(33),
    result=lambda output: output.logits,
    run=numpy_port(convnext),
    faults=(
        fault("blue first", f"{_E}.layernorm"),
        fault("kernel turned", f"{_E}.layernorm"),
        fault("no norm before halving", "convnext.encoder.stages.1.downsampling_layer.1", "op.skipped"),
        fault("maximum instead of mean", "convnext.layernorm", "pool.kind"),
        fault("eps of the last norm", "convnext.layernorm", "norm.eps"),
        fault("kernel flipped", f"{_B}.dwconv", "conv.flipped"),
        fault("edges repeated", f"{_B}.dwconv", "conv.padding"),
        fault("quick gelu", "convnext.encoder.stages.0.layers.0.act", "activation.kind"),
        fault("layer scale missing", f"{_B}", "op.skipped scale.channel"),
        fault("no residual", f"{_B}", "residual.missing"),
    ),
)
