"""Mamba in numpy: the scan as a loop over time, tokens first, with few taps."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import nn

from firstdiff.testing.ports.mathematics import rms_norm, silu
from firstdiff.testing.ports.port import Array, Port, Tap, Weights, Wrong, fault, numpy_port
from firstdiff.testing.zoo.architectures import Architecture

WIDTH, INNER, STATE, RANK, KERNEL, LAYERS, VOCABULARY, EPS = 24, 48, 6, 3, 4, 2, 60, 1e-5


def reference() -> nn.Module:
    tf: Any = import_module("transformers")
    logging.getLogger("transformers.models.mamba.modeling_mamba").setLevel(logging.ERROR)  # that it has no GPU kernels
    config = tf.MambaConfig(
        **{"vocab_size": VOCABULARY, "hidden_size": WIDTH, "state_size": STATE, "num_hidden_layers": LAYERS},
        **{"expand": 2, "conv_kernel": KERNEL, "time_step_rank": RANK, "use_cache": False},
        tie_word_embeddings=False,
    )
    made = tf.MambaForCausalLM(config)
    assert isinstance(made, nn.Module)
    return made


def ids(generator: torch.Generator, batch: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(0, VOCABULARY, (batch, 10), generator=generator)}


def mamba(w: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    x = tap("embedding", w["backbone.embeddings.weight"][inputs["input_ids"]])
    for i in range(LAYERS):
        p = {name.split(f"layers.{i}.")[1]: values for name, values in w.items() if f"layers.{i}." in name}
        normed = tap(f"block{i}.norm", rms_norm(x, p["norm.weight"], 1e-2 if wrong("norm eps", i) else EPS))
        mixed = tap(f"block{i}.mixer", mixer(p, normed, i, tap, wrong))
        x = tap(f"block{i}", mixed + (normed if wrong("residual from the norm", i) else x))
    x = tap("norm_f", rms_norm(x, w["backbone.norm_f.weight"], EPS))
    return tap("logits", x @ w["lm_head.weight"].T)


def mixer(p: Weights, x: Array, i: int, tap: Tap, wrong: Wrong) -> Array:
    projected = tap(f"block{i}.in_proj", x @ p["mixer.in_proj.weight"].T)
    hidden, gate = np.split(projected, 2, axis=-1)
    if wrong("gate first", i):
        hidden, gate = gate, hidden
    convolved = conv(hidden, p["mixer.conv1d.weight"], p["mixer.conv1d.bias"], i, wrong)
    u = tap(f"block{i}.conv", convolved if wrong("activation missing", i) else silu(convolved))
    step, b, c = np.split(u @ p["mixer.x_proj.weight"].T, [RANK, RANK + STATE], axis=-1)
    if wrong("B and C swapped", i):
        b, c = c, b
    step = step @ p["mixer.dt_proj.weight"].T + (0 if wrong("bias of the step missing", i) else p["mixer.dt_proj.bias"])
    delta = np.maximum(step, 0) if wrong("relu for softplus", i) else np.logaddexp(step, np.float32(0))
    delta = tap(f"block{i}.dt", delta)
    log_a = p["mixer.A_log"]
    a = -log_a if wrong("logarithm of A taken for A", i) else -np.exp(log_a)
    h = np.zeros((len(x), INNER, STATE), np.float32)
    outputs = []
    for t in range(x.shape[1]):
        decay = np.exp(delta[:, t, :, None] * a)
        if wrong("B not multiplied by the step", i):
            fresh = b[:, t, None] * u[:, t, :, None]
        else:
            fresh = delta[:, t, :, None] * b[:, t, None] * u[:, t, :, None]
        before = h
        h = decay * h + fresh
        state = before if wrong("state read before it is updated", i) else h
        outputs.append((state * c[:, t, None]).sum(-1))
    y = tap(f"block{i}.scan", np.stack(outputs, 1))
    if not wrong("skip through D missing", i):
        y = y + u * p["mixer.D"]
    y = y * (gate if wrong("gate without activation", i) else silu(gate))
    return tap(f"block{i}.gated", y) @ p["mixer.out_proj.weight"].T


def conv(x: Array, kernel: Array, bias: Array, i: int, wrong: Wrong) -> Array:
    """Each channel with its own kernel, over what came before."""
    before, after = (1, 2) if wrong("convolution not causal", i) else (KERNEL - 1, 0)
    padded = np.pad(x, ((0, 0), (before, after), (0, 0)))
    taps = kernel[:, 0, ::-1] if wrong("kernel flipped", i) else kernel[:, 0]
    shifted = [padded[:, shift : shift + x.shape[1]] * taps[:, shift] for shift in range(KERNEL)]
    return np.asarray(sum(shifted) + bias)


_LAYER = "backbone.layers.{n}"
_MIXER = "backbone.layers.{n}.mixer"
PORT = Port(
    name="mamba",
    half="open",
    style="numpy, few taps, the scan as a loop, tokens first",
    build=lambda: Architecture("mamba", reference, ids).build(24),
    result=lambda output: output.logits,
    run=numpy_port(mamba),
    faults=(
        fault("norm eps", f"{_LAYER}.norm", "norm.eps", layer=0),
        fault("residual from the norm", _LAYER, "residual.missing", layer=1),
        fault("gate first", f"{_MIXER}.act", "layout.chunk_swap", layer=1),
        fault("activation missing", f"{_MIXER}.act", "activation.missing op.skipped", layer=0),
        fault("B and C swapped", f"{_MIXER}.stack", "layout.chunk_swap", layer=1),
        fault("bias of the step missing", f"{_MIXER}.softplus", "bias.missing", layer=0),
        fault("relu for softplus", f"{_MIXER}.softplus", "activation.kind", layer=1),
        fault("logarithm of A taken for A", f"{_MIXER}.stack", "", layer=0),
        fault("B not multiplied by the step", f"{_MIXER}.stack", "op.skipped", layer=0),
        fault("state read before it is updated", f"{_MIXER}.stack", "shift.sequence", layer=1),
        fault("skip through D missing", f"{_MIXER}.mul@14", "residual.missing op.skipped", layer=1),
        fault("gate without activation", f"{_MIXER}.mul@14", "activation.missing", layer=0),
        fault("convolution not causal", f"{_MIXER}.act", "shift.sequence conv.padding", layer=1),
        fault("kernel flipped", f"{_MIXER}.act", "conv.flipped weights.differ", layer=0),
    ),
)
