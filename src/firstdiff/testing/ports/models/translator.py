"""A translator of two GRUs with attention, in numpy with cryptic names, one step at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from firstdiff.testing.ports.mathematics import sigmoid, softmax
from firstdiff.testing.ports.port import Array, Port, Tap, Weights, Wrong, fault, numpy_port
from firstdiff.testing.zoo.architectures import Architecture

V, E, S = 40, 14, 18


class Translator(nn.Module):
    """An encoder of two layers, a decoder that is taught, and attention between them."""

    def __init__(self) -> None:
        super().__init__()
        self.source_embedding, self.target_embedding = nn.Embedding(V, E), nn.Embedding(V, E)
        self.encoder = nn.GRU(E, S, num_layers=2)
        self.bridge = nn.Linear(S, S)
        self.decoder = nn.GRU(E, S)
        self.score = nn.Linear(S, S, bias=False)
        self.combine = nn.Linear(2 * S, S)
        self.generator = nn.Linear(S, V)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        memory, last = self.encoder(self.source_embedding(source))
        states, _ = self.decoder(self.target_embedding(target), torch.tanh(self.bridge(last[-1:])))
        scores = self.score(states).transpose(0, 1) @ memory.permute(1, 2, 0)
        context = (torch.softmax(scores, dim=-1) @ memory.transpose(0, 1)).transpose(0, 1)
        return self.generator(torch.tanh(self.combine(torch.cat([context, states], dim=-1))))


def texts(generator: torch.Generator, batch: int) -> dict[str, Any]:
    lengths = {"source": 9, "target": 7}
    return {name: torch.randint(1, V, (length, batch), generator=generator) for name, length in lengths.items()}


def translate(w: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    src, trg = inputs["source"].T, inputs["target"].T
    if wrong("source reversed"):
        src = src[:, ::-1]
    x = tap("xs", w["source_embedding.weight"][src])
    first, _ = gru(w, "encoder", 0, x, np.zeros((len(x), S), np.float32), wrong)
    enc, h = gru(w, "encoder", 1, first, np.zeros((len(x), S), np.float32), wrong)
    tap("hs", enc)
    if wrong("state of the first layer"):
        h = first[:, -1]
    h0 = h @ w["bridge.weight"].T + w["bridge.bias"]
    h0 = tap("h0", h0 if wrong("bridge without tanh") else np.tanh(h0))
    table = "source" if wrong("table of the other language") else "target"
    y = tap("ys", w[f"{table}_embedding.weight"][trg])
    if wrong("target one behind"):
        y = np.concatenate([np.zeros_like(y[:, :1]), y[:, :-1]], 1)
    dec, _ = gru(w, "decoder", 0, y, np.zeros_like(h0) if wrong("decoder from zeros") else h0, wrong)
    tap("hd", dec)
    weight = w["score.weight"] if wrong("scores turned") else w["score.weight"].T
    a = softmax((dec @ weight) @ enc.swapaxes(1, 2) / (np.sqrt(S).astype(np.float32) if wrong("scores scaled") else 1))
    tap("al", a)
    both = [dec, a @ enc] if wrong("context behind the state") else [a @ enc, dec]
    o = tap("o", np.tanh(np.concatenate(both, -1) @ w["combine.weight"].T + w["combine.bias"]))
    return tap("p", o @ w["generator.weight"].T + w["generator.bias"]).swapaxes(0, 1)


def gru(w: Weights, name: str, n: int, x: Array, h: Array, wrong: Wrong) -> tuple[Array, Array]:
    w_x, w_h = w[f"{name}.weight_ih_l{n}"], w[f"{name}.weight_hh_l{n}"]
    b_x, b_h = w[f"{name}.bias_ih_l{n}"], w[f"{name}.bias_hh_l{n}"]
    if wrong("one bias for both"):
        b_x, b_h = b_x + b_h, np.zeros_like(b_h)
    states = []
    for t in range(x.shape[1]):
        r, z, c = np.split(x[:, t] @ w_x.T + b_x, 3, -1)
        hr, hz, hc = np.split(h @ w_h.T + b_h, 3, -1)
        r, z = sigmoid(r + hr), sigmoid(z + hz)
        h = (1 - z) * np.tanh(c + r * hc) + z * h
        states.append(h)
    return np.stack(states, 1), h


PORT = Port(
    name="translator",
    half="open",
    style="numpy, few taps with cryptic names, texts first",
    build=lambda: Architecture("translator", Translator, texts).build(35),
    result=lambda output: output,
    run=numpy_port(translate),
    faults=(
        fault("source reversed", "source_embedding", "layout.reversed"),
        fault("state of the first layer", "root.tanh", ""),
        fault("bridge without tanh", "root.tanh", "activation.missing"),
        fault("table of the other language", "target_embedding"),
        fault("target one behind", "decoder", "shift.sequence"),
        fault("decoder from zeros", "decoder"),
        fault("scores turned", "root.softmax", "weights.transposed"),
        fault("scores scaled", "root.softmax", "attention.scale"),
        fault("context behind the state", "root.tanh@1", "layout.chunk_swap"),
        fault("one bias for both", "encoder", "bias.missing"),
    ),
)
