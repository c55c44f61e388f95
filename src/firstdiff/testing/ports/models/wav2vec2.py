"""wav2vec 2.0 with a CTC head in numpy: time first, names of fairseq, convolutions as products of windows."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import nn

from firstdiff.testing.ports.mathematics import gelu, gelu_tanh, layer_norm, softmax
from firstdiff.testing.ports.port import Array, Port, Tap, Weights, Wrong, fault, numpy_port
from firstdiff.testing.zoo.architectures import Architecture

D, H, FF, N, C, GROUPS, WIDTH = 32, 4, 48, 3, 16, 4, 8
STRIDES, KERNELS = (4, 2, 2), (8, 3, 2)
EPS = 1e-5


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    config = tf.Wav2Vec2Config(
        **{"vocab_size": 14, "hidden_size": D, "num_hidden_layers": N, "num_attention_heads": H},
        **{"intermediate_size": FF, "conv_dim": (C,) * 3, "conv_stride": STRIDES, "conv_kernel": KERNELS},
        **{"num_conv_pos_embeddings": WIDTH, "num_conv_pos_embedding_groups": GROUPS, "apply_spec_augment": False},
        attn_implementation="eager",
    )
    made: nn.Module = tf.Wav2Vec2ForCTC(config)
    return made


def sounds(generator: torch.Generator, batch: int) -> dict[str, Any]:
    return {"input_values": torch.randn(batch, 320, generator=generator)}


def wav2vec2(w: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    x = inputs["input_values"].T[:, :, None]
    for i, (width, stride) in enumerate(zip(KERNELS, STRIDES, strict=True)):
        name = f"wav2vec2.feature_extractor.conv_layers.{i}"
        if wrong("windows one frame late", i):
            x = np.concatenate([x[1:], np.zeros_like(x[:1])])
        x = frames(x, width, stride) @ w[f"{name}.conv.weight"].transpose(2, 1, 0).reshape(-1, C)
        if i == 0:
            tap("conv_layers.0.0", x)
            axis = 2 if wrong("norm over channels instead of time") else 0
            x = (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + np.float32(EPS))
            x = x * w[f"{name}.layer_norm.weight"] + w[f"{name}.layer_norm.bias"]
        x = gelu_tanh(x) if wrong("tanh gelu in the front end", i) else gelu(x)
        tap(f"conv_layers.{i}", x)
    projection = "wav2vec2.feature_projection"
    if not wrong("features not normed"):
        x = norm(w, f"{projection}.layer_norm", x)
    x = tap("post_extract_proj", linear(w, f"{projection}.projection", x))
    positions = tap("pos_conv", convolved_positions(w, x, wrong))
    if wrong("positions after the norm"):
        x = norm(w, "wav2vec2.encoder.layer_norm", x) + positions
    else:
        x = norm(w, "wav2vec2.encoder.layer_norm", x + positions)
    tap("encoder.layer_norm", x)
    for n in range(N):
        if not wrong("layer left out", n):
            x = block(w, x, n, tap, wrong)
    if wrong("normed again at the end"):
        x = norm(w, "wav2vec2.encoder.layer_norm", x)
    return tap("proj", linear(w, "lm_head", x)).swapaxes(0, 1)


def block(w: Weights, x: Array, n: int, tap: Tap, wrong: Wrong) -> Array:
    name = f"wav2vec2.encoder.layers.{n}"
    time, batch, _ = x.shape
    y = norm(w, f"{name}.layer_norm", x) if wrong("norm before attention", n) else x
    q, k, v = (linear(w, f"{name}.attention.{part}_proj", y) for part in "qkv")
    if wrong("heads cut from channels strided", n):
        q, k, v = (part.reshape(time, batch, D // H, H).transpose(1, 3, 0, 2) for part in (q, k, v))
    else:
        q, k, v = (part.reshape(time, batch, H, D // H).transpose(1, 2, 0, 3) for part in (q, k, v))
    scores = q @ k.swapaxes(2, 3) / np.float32(1 if wrong("scores not scaled", n) else (D // H) ** 0.5)
    mixed = (softmax(scores, 2 if wrong("softmax over queries", n) else 3) @ v).transpose(2, 0, 1, 3)
    mixed = mixed.reshape(time, batch, D)
    attn = mixed @ w[f"{name}.attention.out_proj.weight"].T
    if not wrong("bias of the output missing", n):
        attn = attn + w[f"{name}.attention.out_proj.bias"]
    tap(f"layers.{n}.self_attn", attn)
    x = x + attn if y is not x else norm(w, f"{name}.layer_norm", x + attn)
    tap(f"layers.{n}.self_attn_layer_norm", x)
    h = linear(w, f"{name}.feed_forward.intermediate_dense", x)
    h = np.maximum(h, 0) if wrong("relu for gelu", n) else gelu(h)
    h = linear(w, f"{name}.feed_forward.output_dense", h)
    eps = 1e-2 if wrong("eps of the second norm", n) else EPS
    x = norm(w, f"{name}.final_layer_norm", h if wrong("feed-forward without residual", n) else x + h, eps)
    return tap(f"layers.{n}", x)


def convolved_positions(w: Weights, x: Array, wrong: Wrong) -> Array:
    """Each group of channels by itself; the kernel is a direction and a length for each of its taps."""
    name = "wav2vec2.encoder.pos_conv_embed.conv"
    length, direction = (w[f"{name}.parametrizations.weight.original{i}"] for i in range(2))
    axes: Any = (1, 2) if wrong("kernel normed for each channel") else (0, 1)
    kernel = direction / np.sqrt((direction**2).sum(axes, keepdims=True))
    kernel = kernel if wrong("length of the kernel left out") else kernel * length
    before = WIDTH // 2 - (1 if wrong("frame cut off at the front") else 0)
    padded = np.pad(x, ((before, WIDTH - 1 - before), (0, 0), (0, 0)))
    time, batch, _ = x.shape
    windows = np.stack([padded[shift : shift + time] for shift in range(WIDTH)], -1)
    windows = windows.reshape(time, batch, GROUPS, D // GROUPS, WIDTH)
    if wrong("channels dealt out to groups"):
        windows = windows.reshape(time, batch, D // GROUPS, GROUPS, WIDTH).swapaxes(2, 3)
    kernel = kernel.reshape(GROUPS, D // GROUPS, D // GROUPS, WIDTH)
    mixed = np.einsum("tbgck,gdck->tbgd", windows, kernel).reshape(time, batch, D)
    return gelu(mixed + w[f"{name}.bias"])


def frames(x: Array, width: int, stride: int) -> Array:
    """Windows of time beside each other, without padding."""
    count = (len(x) - width) // stride + 1
    windows = x[np.arange(count)[:, None] * stride + np.arange(width)]
    return windows.swapaxes(1, 2).reshape(count, x.shape[1], -1)


def linear(w: Weights, name: str, x: Array) -> Array:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def norm(w: Weights, name: str, x: Array, eps: float = EPS) -> Array:
    return layer_norm(x, w[f"{name}.weight"], w[f"{name}.bias"], eps)


_F = "wav2vec2.feature_extractor.conv_layers"
_P = "wav2vec2.encoder.pos_conv_embed"
_L = "wav2vec2.encoder.layers.{n}"
PORT = Port(
    name="wav2vec2",
    half="open",
    style="numpy, time first, names of fairseq, three taps a layer",
    build=lambda: Architecture("wav2vec2", reference, sounds).build(53),
    result=lambda output: output.logits,
    run=numpy_port(wav2vec2),
    faults=(
        fault("windows one frame late", f"{_F}.1.activation", "shift.sequence conv.padding conv.stride", layer=1),
        fault("norm over channels instead of time", f"{_F}.0.activation", "norm.kind norm.groups"),
        fault("tanh gelu in the front end", f"{_F}.2.activation", "activation.kind", layer=2),
        fault(
            "features not normed",
            "wav2vec2.feature_projection.layer_norm wav2vec2.feature_projection.projection",
            "op.skipped",
        ),
        fault("positions after the norm", "wav2vec2.encoder.layer_norm", ""),
        fault("layer left out", f"{_L} wav2vec2.encoder.layers.2.attention", "op.skipped", layer=1),
        fault("normed again at the end", "lm_head", "op.repeated"),
        fault("norm before attention", f"{_L}.attention", "", layer=0),
        fault(
            "heads cut from channels strided",
            f"{_L}.attention",
            "layout.head_order layout.reshape layout.transpose",
            layer=2,
        ),
        fault("scores not scaled", f"{_L}.attention", "attention.scale", layer=1),
        fault("softmax over queries", f"{_L}.attention", "softmax.axis", layer=2),
        fault("bias of the output missing", f"{_L}.attention", "bias.missing", layer=0),
        fault("relu for gelu", f"{_L}.feed_forward.intermediate_act_fn {_L}", "activation.kind", layer=0),
        fault("eps of the second norm", f"{_L}.final_layer_norm", "norm.eps", layer=2),
        fault("feed-forward without residual", f"{_L}.add@1 {_L}.final_layer_norm", "residual.missing", layer=1),
        fault("kernel normed for each channel", f"{_P}", "weights.differ weights.unfolded scale.channel"),
        fault("length of the kernel left out", f"{_P}", "weights.unfolded weights.differ"),
        fault("frame cut off at the front", f"{_P}", "shift.sequence conv.padding"),
        fault("channels dealt out to groups", f"{_P}", "layout.head_order layout.reshape layout.transpose"),
    ),
)
