"""Capturing: what recording a model costs beside running it and writing the same bytes."""

from __future__ import annotations

import itertools
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.row import Row, at_most

if TYPE_CHECKING:
    import torch

LAYERS, HEADS, WIDTH, TOKENS, VOCABULARY = 12, 12, 768, 256, 1000
TIMES = 7
TAPS = 100_000


def run(folder: Path) -> list[Row]:
    """The rows of this part; traces are written in `folder`."""
    import torch

    torch.manual_seed(0)
    model, ids = _gpt().eval(), torch.randint(0, VOCABULARY, (1, TOKENS))
    rows = []
    for level, bound in (("module", 1.3), ("function", 2.0)):
        rows += _level(model, ids, level, bound, folder)
    return [*rows, at_most("tap when nothing records", _tap_cost(), "µs", 1.0)]


def _level(model: torch.nn.Module, ids: torch.Tensor, level: Any, bound: float, folder: Path) -> list[Row]:
    """One level against its parts, taken in turns, so that whatever else the machine does meets all of them."""
    import torch

    from firstdiff.capturing import capture

    # each in a new folder: some file systems are slow to make files where others were just deleted
    fresh = (folder / level / str(number) for number in itertools.count())

    def forward() -> None:
        with torch.no_grad():
            model(ids)

    def captured() -> Path:
        trace = next(fresh)
        with torch.no_grad(), capture(model, trace, level=level):
            model(ids)
        return trace

    forward()
    arrays = [np.load(file) for file in sorted(captured().glob("*.npy"))]
    works = (forward, lambda: _save(arrays, next(fresh)), captured)
    rounds = [[_timed(work) for work in works] for _ in range(TIMES)]
    shutil.rmtree(folder / level)
    plain, saving, recording = (statistics.median(times) for times in zip(*rounds, strict=True))
    size = sum(array.nbytes for array in arrays) / 1e6
    return [
        Row(f"forward pass, {LAYERS} layers of {WIDTH}, {TOKENS} tokens", plain, "s"),
        Row(f"np.save of what level={level!r} records, {size:.0f} MB in {len(arrays)} files", saving, "s"),
        Row(f"capture, level={level!r}", recording, "s"),
        at_most(f"capture, level={level!r}, of forward pass + np.save", recording / (plain + saving), "x", bound),
    ]


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _save(arrays: list[np.ndarray], folder: Path) -> None:
    """Save the arrays as a plain script would: a new folder, one file after the other."""
    folder.mkdir()
    for number, array in enumerate(arrays):
        np.save(folder / f"{number:06d}.npy", array)


def _tap_cost() -> float:
    from firstdiff.capturing import tap

    def many() -> None:
        for _ in range(TAPS):
            tap("name", 1.0)

    return statistics.median(_timed(many) for _ in range(TIMES)) / TAPS * 1e6


def _gpt() -> torch.nn.Module:
    from torch import nn

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            batch, tokens, _ = x.shape
            parts = self.qkv(x).chunk(3, dim=-1)
            q, k, v = (part.view(batch, tokens, HEADS, -1).transpose(1, 2) for part in parts)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(mixed.transpose(1, 2).reshape(x.shape))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln_1, self.ln_2, self.attn = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Attention()
            self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    return nn.Sequential(
        nn.Embedding(VOCABULARY, WIDTH),
        *(Block() for _ in range(LAYERS)),
        nn.LayerNorm(WIDTH),
        nn.Linear(WIDTH, VOCABULARY, bias=False),
    )
