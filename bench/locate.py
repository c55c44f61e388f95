"""Benchmark of locating the first divergence: two traces of 32 layers, two faults, every later row different."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.commands import firstdiff
from bench.row import Row, at_most

LAYERS, WIDTH, TOKENS = 32, 128, 64
SECONDS = {"locate": 1.0}
REPEATS = 3

RECORD = """
import sys
import torch
import firstdiff as fd
from tests.capturing.models import GPT, VOCABULARY

torch.manual_seed(0)
layers, width, tokens, folder = *map(int, sys.argv[1:4]), sys.argv[4]
model = GPT(layers=layers, width=width, heads=4, fused=False).eval()
ids = torch.arange(tokens).reshape(1, tokens) % VOCABULARY
with torch.no_grad():
    with fd.capture(model, f"{folder}/reference"):
        model(ids)
    model.layers[layers // 4].ln_2.eps = 1e-3
    model.layers[layers // 2].mlp[0].bias += 0.01
    with fd.capture(model, f"{folder}/candidate"):
        model(ids)
"""


def run(folder: Path) -> list[Row]:
    """The rows of this part, the best of a few runs of the command line."""
    return list(_rows(compared(folder, LAYERS, WIDTH, TOKENS)))


def compared(folder: Path, layers: int, width: int, tokens: int) -> list[dict[str, Any]]:
    """Comparisons of two runs of so many layers with two faults, one for each turn."""
    sizes = [str(layers), str(width), str(tokens)]
    subprocess.run([sys.executable, "-c", RECORD, *sizes, str(folder)], check=True)
    compare = firstdiff("compare", "reference", "candidate", "--format", "json")
    turns = [subprocess.run(compare, cwd=folder, capture_output=True, check=False) for _ in range(REPEATS)]
    return [json.loads(done.stdout) for done in turns]


def _rows(found: list[dict[str, Any]]) -> Iterator[Row]:
    title = f"{LAYERS} layers of {WIDTH}, {len(found[0]['pairs']):,} rows"
    sites = [site["name"] for site in found[0]["divergences"]]
    expected = [f"layers.{LAYERS // 4}.ln_2", f"layers.{LAYERS // 2}.mlp.0"]
    yield Row(f"{title}: both faults listed", float(sites == expected), "", "= 1", sites == expected)
    for stage, seconds in SECONDS.items():
        best = min(comparison["timings"][stage] for comparison in found)
        yield at_most(f"{title}: {stage}", best, "s", seconds)
