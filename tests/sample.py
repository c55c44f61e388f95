"""Two traces of one small language model, the second with a planted bug; numpy is all it takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from firstdiff.trace import Record, Role, TraceWriter

LAYERS, HEADS, TOKENS, WIDTH, VOCABULARY = 4, 4, 24, 64, 97
FAULTY_LAYER = 2

Array = np.ndarray


@dataclass(frozen=True)
class Variant:
    """A variant of the run: `faulty_eps` is the LayerNorm eps of the wrong layer, `flipped` sums in another order."""

    faulty_eps: float | None = None
    flipped: bool = False

    def eps(self, layer: int, norm: str) -> float:
        wrong = self.faulty_eps is not None and layer == FAULTY_LAYER and norm == "ln_1"
        return float(self.faulty_eps or 0) if wrong else 1e-5

    def matmul(self, x: Array, w: Array) -> Array:
        """The same product; flipped, the last bits differ, as they do between any two kernels."""
        if not self.flipped:
            return np.asarray(x @ w)
        return np.asarray(np.ascontiguousarray(x[..., ::-1]) @ np.ascontiguousarray(w[::-1]))


def write_sample(folder: str | Path) -> tuple[Path, Path]:
    """Write `reference.trace` and `candidate.trace` into a folder, replacing earlier ones; returns their paths."""
    reference, candidate = Path(folder) / "reference.trace", Path(folder) / "candidate.trace"
    _run(reference, Variant())
    _run(candidate, Variant(faulty_eps=1e-3, flipped=True))
    return reference, candidate


def _run(path: Path, variant: Variant) -> None:
    producer = {"name": "tests.sample"}
    with TraceWriter(path, producer=producer, header={"seed": 0}, overwrite=True) as writer:
        _Model(_Recorder(writer), variant).forward()


@final
class _Recorder:
    def __init__(self, writer: TraceWriter) -> None:
        self._writer = writer
        self._seen: list[Array] = []

    def __call__(self, name: str, array: Array, role: Role = "output", **fields: Any) -> None:
        """Write one tensor; an input says which earlier tensor it is."""
        earlier = [seq for seq, seen in enumerate(self._seen) if seen is array] if role == "input" else []
        record = Record(name=name, role=role, seq=len(self._seen), sources=tuple(earlier[:1]), **fields)
        self._writer.write(record, array)
        self._seen.append(array)


@final
class _Model:
    def __init__(self, record: _Recorder, variant: Variant) -> None:
        self._record = record
        self._variant = variant
        self._rng = np.random.default_rng(0)

    def forward(self) -> None:
        tokens = self._rng.integers(0, VOCABULARY, (1, TOKENS))
        self._record("tokens", tokens)
        embedding = self._weight("wte", VOCABULARY, WIDTH, 0.02)
        x = embedding[tokens]
        self._record("wte", x, op="Embedding")
        for layer in range(LAYERS):
            x = self._block(layer, x)
        x = self._norm(LAYERS, "ln_f", "ln_f", x)
        self._record("logits", self._variant.matmul(x, embedding.T.copy()), op="Linear")

    def _block(self, layer: int, x: Array) -> Array:
        name = f"layers.{layer}"
        x = x + self._attention(f"{name}.attn", self._norm(layer, "ln_1", f"{name}.ln_1", x))
        self._record(f"{name}.resid_1", x, op="add")
        hidden = self._linear(f"{name}.mlp.up", self._norm(layer, "ln_2", f"{name}.ln_2", x), 4 * WIDTH)
        hidden = (0.5 * hidden * (1 + np.tanh(math.sqrt(2 / math.pi) * (hidden + 0.044715 * hidden**3)))).astype("f4")
        self._record(f"{name}.mlp.act", hidden, op="GELU", attrs={"approximate": "tanh"})
        x = x + self._linear(f"{name}.mlp.down", hidden, WIDTH)
        self._record(name, x, op="Block")
        return x

    def _attention(self, name: str, x: Array) -> Array:
        size = WIDTH // HEADS
        query, key, value = np.split(self._linear(f"{name}.qkv", x, 3 * WIDTH), 3, axis=-1)
        heads = [part.reshape(1, TOKENS, HEADS, size).transpose(0, 2, 1, 3) for part in (query, key, value)]
        scores = heads[0] @ heads[1].transpose(0, 1, 3, 2) / np.float32(math.sqrt(size))
        scores = np.where(np.tril(np.ones((TOKENS, TOKENS), bool)), scores, np.float32(-np.inf))
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        self._record(f"{name}.softmax", weights, op="softmax", attrs={"dim": -1})
        mixed = (weights @ heads[2]).transpose(0, 2, 1, 3).reshape(1, TOKENS, WIDTH)
        return self._linear(f"{name}.out", mixed, WIDTH)

    def _norm(self, layer: int, norm: str, name: str, x: Array) -> Array:
        eps = self._variant.eps(layer, norm)
        y: Array = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + np.float32(eps))
        self._record(name, x, role="input")
        self._record(
            name, y, op="LayerNorm", attrs={"eps": eps, "normalized_shape": [WIDTH], "elementwise_affine": False}
        )
        return y

    def _linear(self, name: str, x: Array, width: int) -> Array:
        weight = self._weight(name, width, x.shape[-1], 1 / math.sqrt(x.shape[-1]))
        y = self._variant.matmul(x, weight.T)
        self._record(name, x, role="input")
        self._record(name, y, op="Linear")
        return y

    def _weight(self, name: str, rows: int, columns: int, scale: float) -> Array:
        weight = (self._rng.standard_normal((rows, columns)) * scale).astype(np.float32)
        self._record(f"{name}.weight", weight, role="param")
        return weight
