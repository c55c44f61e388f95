"""EnCodec in numpy: cryptic names, few taps, channels last, windows times one matrix, weights folded beforehand."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import nn

from firstdiff.testing.ports.mathematics import sigmoid
from firstdiff.testing.ports.port import Array, Port, Tap, Weights, Wrong, fault, numpy_port
from firstdiff.testing.zoo.architectures import Architecture

NF, NZ, NQ, NB, UP, L, NS = 6, 16, 3, 32, (4, 2), 2, 100


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    config = tf.EncodecConfig(
        **{"target_bandwidths": [15.0, 40.0], "sampling_rate": 8000, "normalize": True, "chunk_length_s": None},
        **{"hidden_size": NZ, "num_filters": NF, "num_residual_layers": 2, "upsampling_ratios": list(UP)},
        **{"codebook_size": NB, "num_lstm_layers": L, "last_kernel_size": 5},
    )
    model: nn.Module = tf.EncodecModel(config)
    for number, layer in enumerate(model.quantizer.layers):  # type: ignore[arg-type,union-attr]
        layer.codebook.embed.normal_().mul_(1.2 * 0.7**number)
    return model


def sounds(generator: torch.Generator, batch: int) -> dict[str, Any]:
    return {"input_values": 0.3 * torch.randn(batch, 1, NS, generator=generator)}


def encodec(w: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    x = inputs["input_values"].swapaxes(1, 2)
    s = np.abs(x).max(1, keepdims=True) if wrong("peak for power") else np.sqrt((x * x).mean(1, keepdims=True))
    s = tap("s", s + np.float32(1e-8))
    z = enc(w, x if wrong("sound not divided") else x / s, tap, wrong)
    c = tap("c", codes(w, z, tap, wrong))
    zq = np.zeros_like(z)
    for q in range(NQ):
        zq = zq + w[f"quantizer.layers.{0 if wrong('first codebook for all') else q}.codebook.embed"][c[:, q]]
    y = dec(w, tap("zq", zq), tap, wrong)
    if not wrong("scale not put back"):
        y = y * s
    return tap("y", y[:, :NS]).swapaxes(1, 2)


def enc(w: Weights, x: Array, tap: Tap, wrong: Wrong) -> Array:
    p = "encoder.layers"
    x = tap("e0", cv(x, fold(w, f"{p}.0", flip=wrong("kernel flipped")), w[f"{p}.0.conv.bias"]))
    i = 1
    for r in reversed(UP):
        x = rb(w, f"{p}.{i}", x, 1)
        x = rb(w, f"{p}.{i + 1}", x, 1 if wrong("not dilated", i) else 2, edge=wrong("zeros for reflections", i))
        tap(f"e{i + 1}", x)
        x = x if wrong("not activated", i) else elu(x)
        k, b = fold(w, f"{p}.{i + 3}"), w[f"{p}.{i + 3}.conv.bias"]
        x = tap(f"e{i + 3}", cv(x, k, b, stride=r, causal=not wrong("padded on both sides", i)))
        i += 4
    x = tap(f"e{i}", x + rnn(w, f"{p}.{i}.lstm", x, swapped=wrong("gates in another order")))
    x = np.maximum(x, 0) if wrong("relu for elu") else elu(x)
    return tap("z", cv(x, fold(w, f"{p}.{i + 2}"), w[f"{p}.{i + 2}.conv.bias"]))


def codes(w: Weights, z: Array, tap: Tap, wrong: Wrong) -> Array:
    """What is nearest, then what is nearest to the rest, and so on."""
    c, left = [], z
    for q in range(NQ):
        e = w[f"quantizer.layers.{q}.codebook.embed"]
        d = -2 * left @ e.T
        if not wrong("lengths of entries left out"):
            d = d + (e * e).sum(1)
        c.append(d.argmin(-1))
        if not wrong("every codebook sees everything"):
            left = left - e[c[-1]]
        if q == 1:
            tap("r1", left)
    return np.stack(c, 1)


def dec(w: Weights, x: Array, tap: Tap, wrong: Wrong) -> Array:
    p = "decoder.layers"
    x = tap("d0", cv(x, fold(w, f"{p}.0", unit=wrong("lengths of kernels left out")), w[f"{p}.0.conv.bias"]))
    h = rnn(w, f"{p}.1.lstm", x)
    x = tap("d1", h if wrong("recurrence without skip") else x + h)
    i = 3
    for r in UP:
        k = fold(w, f"{p}.{i}", axes=(0, 2) if wrong("normed for each output", i) else (1, 2))
        x = tap(f"d{i}", ct(elu(x), k, w[f"{p}.{i}.conv.bias"], r, front=wrong("cut off at the front", i)))
        x = rb(w, f"{p}.{i + 1}", x, 1)
        x = tap(f"d{i + 2}", rb(w, f"{p}.{i + 2}", x, 2, shortcut=not wrong("shortcut not convolved", i)))
        i += 4
    return cv(elu(x), fold(w, f"{p}.{i}"), w[f"{p}.{i}.conv.bias"])


def rb(w: Weights, p: str, x: Array, dilation: int, *, edge: bool = False, shortcut: bool = True) -> Array:
    """Two convolutions beside a third."""
    pad = "constant" if edge else "reflect"
    h = cv(elu(x), fold(w, f"{p}.block.1"), w[f"{p}.block.1.conv.bias"], dilation=dilation, pad=pad)
    h = cv(elu(h), fold(w, f"{p}.block.3"), w[f"{p}.block.3.conv.bias"])
    return h + (cv(x, fold(w, f"{p}.shortcut"), w[f"{p}.shortcut.conv.bias"]) if shortcut else x)


def fold(w: Weights, p: str, *, axes: Any = (1, 2), unit: bool = False, flip: bool = False) -> Array:
    g, v = (w[f"{p}.conv.parametrizations.weight.original{n}"] for n in range(2))
    k = v / np.sqrt((v * v).sum(axes, keepdims=True))
    k = k if unit else k * g
    return k[:, :, ::-1] if flip else k


def cv(
    x: Array, k: Array, b: Array, *, stride: int = 1, dilation: int = 1, causal: bool = True, pad: Any = "reflect"
) -> Array:
    """Windows of [b, t, c] side by side, times one matrix."""
    o, c, n = k.shape
    reach = (n - 1) * dilation + 1
    left = reach - stride
    count = -(-x.shape[1] // stride)
    right = (count - 1) * stride + reach - left - x.shape[1]
    if not causal:
        left, right = left - left // 2, right + left // 2
    if left or right:
        x = np.pad(x, ((0, 0), (left, right), (0, 0)), pad)
    at = np.arange(count)[:, None] * stride + np.arange(n) * dilation
    return x[:, at].reshape(len(x), count, n * c) @ k.transpose(2, 1, 0).reshape(n * c, o) + b


def ct(x: Array, k: Array, b: Array, r: int, *, front: bool) -> Array:
    """Every frame makes n samples, r apart; the last n - r are cut off."""
    t, n = x.shape[1], k.shape[2]
    y = np.zeros((len(x), (t - 1) * r + n, k.shape[1]), np.float32)
    for j in range(n):
        y[:, j : j + t * r : r][:, :t] += x @ k[:, :, j]
    return (y[:, n - r :] if front else y[:, : t * r]) + b


def rnn(w: Weights, p: str, x: Array, *, swapped: bool = False) -> Array:
    for n in range(L):
        k = np.concatenate([w[f"{p}.weight_ih_l{n}"], w[f"{p}.weight_hh_l{n}"]], 1)
        b = w[f"{p}.bias_ih_l{n}"] + w[f"{p}.bias_hh_l{n}"]
        h = c = np.zeros((len(x), x.shape[2]), np.float32)
        out = []
        for t in range(x.shape[1]):
            i, f, g, o = np.split(np.concatenate([x[:, t], h], 1) @ k.T + b, 4, 1)
            if swapped and n:
                g, o = o, g
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            out.append(h)
        x = np.stack(out, 1)
    return x


def elu(x: Array) -> Array:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


_E = "encoder.layers"
_D = "decoder.layers"
PORT = Port(
    name="encodec",
    half="locked",
    style="numpy, cryptic names, few taps, channels last, windows times one matrix",
    build=lambda: Architecture("encodec", reference, sounds).build(64),
    result=lambda output: output.audio_values,
    run=numpy_port(encodec),
    faults=(
        fault("peak for power", "root.add", "pool.kind"),
        fault("sound not divided", f"{_E}.0", "op.skipped audio.gain"),
        fault("kernel flipped", f"{_E}.0", "conv.flipped weights.differ"),
        fault("zeros for reflections", f"{_E}.2", "conv.padding", layer=1),
        fault("padded on both sides", f"{_E}.4", "conv.padding conv.stride shift.sequence", layer=1),
        fault("not dilated", f"{_E}.6", "conv.dilation", layer=5),
        fault("not activated", f"{_E}.8", "activation.missing op.skipped", layer=5),
        fault("gates in another order", f"{_E}.9", "layout.chunk_swap"),
        fault("relu for elu", f"{_E}.11", "activation.kind"),
        fault("lengths of entries left out", "root.sub@3", "op.skipped ids.mismatch"),
        fault("every codebook sees everything", "root.sub@3", "residual.missing values.stale"),
        fault("first codebook for all", "root.add@6", "weights.differ values.stale"),
        fault("lengths of kernels left out", f"{_D}.0", "weights.unfolded weights.differ"),
        fault("recurrence without skip", f"{_D}.1", "residual.missing"),
        fault("normed for each output", f"{_D}.3", "weights.unfolded weights.differ", layer=3),
        fault("cut off at the front", f"{_D}.7", "conv.padding shift.sequence", layer=7),
        fault("shortcut not convolved", f"{_D}.9", "op.skipped", layer=7),
        fault("scale not put back", "root:out.audio_values", "op.skipped audio.gain scale.row scale.channel"),
    ),
)
