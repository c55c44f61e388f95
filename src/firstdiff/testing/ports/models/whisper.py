"""Whisper's encoder in numpy, saved as numbered files: time first, convolutions as sums of shifted products."""

from __future__ import annotations

import numpy as np

from firstdiff.testing.ports.mathematics import gelu, gelu_tanh, layer_norm, softmax
from firstdiff.testing.ports.port import Array, Port, Tap, Weights, Wrong, fault, files_port
from firstdiff.testing.zoo.architectures import ARCHITECTURES, Built

LAYERS, HEADS, EPS = 2, 4, 1e-5


def encoder() -> Built:
    """The encoder alone, and what it hears."""
    whole = ARCHITECTURES["whisper"].build(23)
    return Built(whole.model.model.encoder, {"input_features": whole.inputs["input_features"]})  # type: ignore[union-attr,arg-type]


def whisper(w: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    x = tap("mel", inputs["input_features"].transpose(2, 0, 1))
    activation = gelu_tanh if wrong("tanh gelu in the stem") else gelu
    padding = 0 if wrong("padding after only") else 1
    x = tap("conv1", activation(convolved(x, w["conv1.weight"], w["conv1.bias"], 1, padding)))
    if wrong("stride in the first convolution"):
        x = np.repeat(x[::2], 2, axis=0)
    x = convolved(x, w["conv2.weight"], w["conv2.bias"], 2, 0 if wrong("strided from the second frame") else 1)
    x = tap("conv2", x if wrong("activation missing") else gelu(x))
    positions = w["embed_positions.weight"]
    if wrong("sines and cosines interleaved"):
        positions = positions.reshape(len(positions), 2, -1).swapaxes(1, 2).reshape(positions.shape)
    x = tap("embed", x if wrong("no positions") else x + positions[:, None])
    for n in range(LAYERS):
        x = block(w, x, n, tap, wrong)
    return tap("final", norm(w, "layer_norm", x)).swapaxes(0, 1)


def block(w: Weights, x: Array, n: int, tap: Tap, wrong: Wrong) -> Array:
    time, batch, width = x.shape
    size = width // HEADS
    y = tap(f"l{n}_ln1", norm(w, f"layers.{n}.self_attn_layer_norm", x))
    q, v = (linear(w, f"layers.{n}.self_attn.{part}_proj", y) for part in "qv")
    k = y @ w[f"layers.{n}.self_attn.k_proj.weight"].T
    if wrong("value bias missing", n):
        v = v - w[f"layers.{n}.self_attn.v_proj.bias"]
    tap(f"l{n}_q", q)
    tap(f"l{n}_k", k)
    tap(f"l{n}_v", v)
    q = q * np.float32(1 / size if wrong("scaled before and after", n) else size**-0.5)
    q, k, v = (part.reshape(time, batch * HEADS, size).swapaxes(0, 1) for part in (q, k, v))
    p = softmax(q @ k.swapaxes(1, 2))
    p = tap(
        f"l{n}_probs", p.astype(np.float16).astype(np.float32) if wrong("probabilities in half precision", n) else p
    )
    mixed = (p @ v).swapaxes(0, 1).reshape(time, batch, width)
    out = tap(f"l{n}_attn", linear(w, f"layers.{n}.self_attn.out_proj", mixed))
    x = x + out
    name = f"layers.{n}.{'self_attn_layer_norm' if wrong('norm weights of the other norm', n) else 'final_layer_norm'}"
    y = norm(w, name, x)
    up = gelu(linear(w, f"layers.{n}.fc1", y))
    if wrong("large values clipped", n):
        up = np.minimum(up, 1.0)
    down = linear(w, f"layers.{n}.fc2", tap(f"l{n}_fc1", up))
    return tap(f"l{n}_out", y + down if wrong("residual from the norm", n) else x + down)


def convolved(x: Array, kernel: Array, bias: Array, stride: int, before: int) -> Array:
    """A kernel of three frames as three products; one frame of padding on each side, or both behind."""
    padded = np.pad(x, ((before, 2 - before), (0, 0), (0, 0)))
    count = (len(padded) - 3) // stride + 1
    frames = [padded[shift : shift + count * stride : stride][:count] for shift in range(3)]
    products = [frame @ kernel[:, :, shift].T for shift, frame in enumerate(frames)]
    return np.asarray(sum(products) + bias)


def linear(w: Weights, name: str, x: Array) -> Array:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def norm(w: Weights, name: str, x: Array) -> Array:
    return layer_norm(x, w[f"{name}.weight"], w[f"{name}.bias"], EPS)


_LAYER = "layers.{n}"
PORT = Port(
    name="whisper",
    half="open",
    style="numpy, numbered .npy files, time first",
    build=encoder,
    result=lambda output: output.last_hidden_state,
    run=files_port(whisper),
    faults=(
        fault("tanh gelu in the stem", "root.gelu", "activation.kind"),
        fault("padding after only", "root.gelu", "shift.sequence conv.padding"),
        fault("stride in the first convolution", "root.gelu@1", "conv.stride"),
        fault("strided from the second frame", "root.gelu@1", "shift.sequence conv.stride conv.padding"),
        fault("activation missing", "root.gelu@1", "activation.missing op.skipped"),
        fault("sines and cosines interleaved", "root.add", "layout.interleave position.offset"),
        fault("no positions", "root.add", "residual.missing op.skipped"),
        fault("value bias missing", f"{_LAYER}.self_attn.v_proj", "bias.missing", layer=1),
        fault("scaled before and after", f"{_LAYER}.self_attn.softmax", "attention.scale", layer=0),
        fault("probabilities in half precision", f"{_LAYER}.self_attn.softmax", "dtype.fp16", layer=1),
        fault("norm weights of the other norm", f"{_LAYER}.activation_fn", "weights.differ", layer=0),
        fault("large values clipped", f"{_LAYER}.activation_fn", "values.clipped", layer=1),
        fault("residual from the norm", _LAYER, "residual.missing", layer=0),
    ),
)
