"""A tagger of a GRU and an LSTM, in numpy with loops written out and six taps."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from firstdiff.testing.ports.mathematics import sigmoid, softmax
from firstdiff.testing.ports.port import Array, Port, Tap, Weights, Wrong, fault, numpy_port
from firstdiff.testing.zoo.architectures import Architecture

WORDS, EMBED, STATE, TAGS, LENGTH = 50, 16, 12, 9, 14


class Tagger(nn.Module):
    """Words through a GRU in both directions and an LSTM to tags."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, EMBED)
        self.gru = nn.GRU(EMBED, STATE, batch_first=True, bidirectional=True)
        self.lstm = nn.LSTM(2 * STATE, STATE, batch_first=True)
        self.norm = nn.LayerNorm(STATE)
        self.tags = nn.Linear(STATE, TAGS)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        both, _ = self.gru(self.words(ids))
        states, _ = self.lstm(both)
        return torch.log_softmax(self.tags(self.norm(states)), dim=-1)


def ids(generator: torch.Generator, batch: int) -> dict[str, torch.Tensor]:
    return {"ids": torch.randint(0, WORDS, (batch, LENGTH), generator=generator)}


def tagger(w: Weights, inputs: dict[str, Array], tap: Tap, wrong: Wrong) -> Array:
    sentences = inputs["ids"]
    if wrong("word ids from 1"):
        sentences = (sentences + 1) % WORDS
    x = tap("emb", w["words.weight"][sentences])
    forward = gru(w, "l0", x, wrong)
    if wrong("backward run not reversed back"):
        backward = gru(w, "l0_reverse", x[:, ::-1], wrong)
    elif wrong("both runs forward"):
        backward = gru(w, "l0_reverse", x, wrong)
    else:
        backward = gru(w, "l0_reverse", x[:, ::-1], wrong)[:, ::-1]
    both = [backward, forward] if wrong("directions joined the other way") else [forward, backward]
    x = tap("bigru", np.concatenate(both, -1))
    x = tap("lstm", lstm(w, x, wrong))
    if not wrong("norm missing"):
        centred = x - x.mean(1 if wrong("norm over time") else -1, keepdims=True)
        x = (
            centred / np.sqrt((centred**2).mean(-1, keepdims=True) + np.float32(1e-5)) * w["norm.weight"]
            + w["norm.bias"]
        )
    x = tap("normed", x)
    scores = x @ w["tags.weight"].T + (0 if wrong("bias missing") else w["tags.bias"])
    scores = tap("scores", scores)
    return tap("logp", np.log(softmax(scores, axis=1 if wrong("softmax over time") else -1)))


def gru(w: Weights, part: str, x: Array, wrong: Wrong) -> Array:
    w_x, w_h = w[f"gru.weight_ih_{part}"], w[f"gru.weight_hh_{part}"]
    b_x, b_h = w[f"gru.bias_ih_{part}"], w[f"gru.bias_hh_{part}"]
    h = np.zeros((len(x), STATE), np.float32)
    states = []
    for t in range(x.shape[1]):
        r, z, n = np.split(x[:, t] @ w_x.T + b_x, 3, axis=-1)
        if wrong("reset before the product"):
            w_r, w_z, w_n = np.split(w_h, 3)
            b_r, b_z, b_n = np.split(b_h, 3)
            reset, update = sigmoid(r + h @ w_r.T + b_r), sigmoid(z + h @ w_z.T + b_z)
            new = np.tanh(n + (reset * h) @ w_n.T + b_n)
        else:
            h_r, h_z, h_n = np.split(h @ w_h.T + b_h, 3, axis=-1)
            if wrong("gates in order z, r, n"):
                r, z, h_r, h_z = z, r, h_z, h_r
            reset, update = sigmoid(r + h_r), sigmoid(z + h_z)
            new = np.tanh(n + reset * h_n)
        h = update * new + (1 - update) * h if wrong("update the other way") else (1 - update) * new + update * h
        states.append(h)
    return np.stack(states, 1)


def lstm(w: Weights, x: Array, wrong: Wrong) -> Array:
    w_x, w_h = w["lstm.weight_ih_l0"], w["lstm.weight_hh_l0"]
    bias = w["lstm.bias_ih_l0"] + (0 if wrong("second bias missing") else w["lstm.bias_hh_l0"])
    outputs = np.zeros((*x.shape[:2], STATE), np.float32)
    h = c = np.zeros(STATE, np.float32)
    for row, sentence in enumerate(x):
        if not wrong("state kept between sentences"):
            h, c = np.zeros(STATE, np.float32), np.zeros(STATE, np.float32)
        for t, word in enumerate(sentence):
            i, f, g, o = np.split(word @ w_x.T + h @ w_h.T + bias, 4)
            if wrong("gates in order i, f, o, g"):
                g, o = o, g
            if wrong("gates in order i, g, f, o"):
                f, g = g, f
            forget = sigmoid(f + 1) if wrong("forget bias added") else sigmoid(f)
            c = forget * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * (c if wrong("output without tanh") else np.tanh(c))
            outputs[row, t] = h
    return outputs


PORT = Port(
    name="tagger",
    half="open",
    style="numpy, six taps, loops over time",
    build=lambda: Architecture("tagger", Tagger, ids).build(16),
    result=lambda output: output,
    run=numpy_port(tagger),
    faults=(
        fault("word ids from 1", "words words:in.0", "ids.mismatch position.offset"),
        fault("backward run not reversed back", "gru", "layout.reversed"),
        fault("both runs forward", "gru"),
        fault("directions joined the other way", "gru lstm:in.0 lstm", "layout.chunk_swap"),
        fault("norm missing", "norm", "op.skipped"),
        fault("norm over time", "norm", "norm.kind"),
        fault("bias missing", "tags", "bias.missing"),
        fault("softmax over time", "root.log_softmax root", "softmax.axis"),
        fault("reset before the product", "gru"),
        fault("gates in order z, r, n", "gru", "layout.chunk_swap"),
        fault("update the other way", "gru"),
        fault("second bias missing", "lstm", "bias.missing"),
        fault("state kept between sentences", "lstm", "values.stale"),
        fault("gates in order i, f, o, g", "lstm", "layout.chunk_swap"),
        fault("gates in order i, g, f, o", "lstm", "layout.chunk_swap"),
        fault("forget bias added", "lstm"),
        fault("output without tanh", "lstm", "activation.missing"),
    ),
)
