"""Benchmark of diagnosis: two traces of 32 layers, two faults, every hypothesis tested on both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.locate import compared
from bench.row import Row, at_most

LAYERS, WIDTH, TOKENS = 32, 512, 128
SECONDS = 2.0


def run(folder: Path) -> list[Row]:
    """The rows of this part, the best of a few runs of the command line."""
    return list(_rows(compared(folder, LAYERS, WIDTH, TOKENS)))


def _rows(found: list[dict[str, Any]]) -> Iterator[Row]:
    title = f"{LAYERS} layers of {WIDTH}, {len(found[0]['pairs']):,} rows"
    places = [site["pair"] for site in found[0]["divergences"]]
    causes = [row["diagnosis"][0]["cause"] for row in found[0]["pairs"] if row["index"] in places and row["diagnosis"]]
    right = causes == ["norm.eps", "offset.constant"]
    yield Row(f"{title}: both causes named", float(right), "", "= 1", right)
    best = min(comparison["timings"]["diagnose"] for comparison in found)
    yield at_most(f"{title}: diagnose", best, "s", SECONDS)
