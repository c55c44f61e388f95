"""Measuring through a recipe, against the same values in order already; and what finding the recipe costs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.row import Row, at_most
from firstdiff.align import Recipe, solve
from firstdiff.measure import Allowed, Engine, measure_pair
from firstdiff.readers.blob import file_blob
from firstdiff.readers.npy import open_array, read_header
from firstdiff.trace import ArraySource, Source

TIMES = 7
TOLERANCE = Allowed(1e-5, 1e-5)
THREADS = os.cpu_count() or 1

# recipe, the candidate's shape, and how much longer it may take
INNERMOST_STAYS = 1.3
INNERMOST_MOVES = 3.0
RECIPES: list[tuple[str, tuple[int, ...], float]] = [
    ("b s h d -> b h s d", (8, 2048, 32, 64), INNERMOST_STAYS),
    ("b s h d -> s (b h) d", (8, 2048, 32, 64), INNERMOST_STAYS),
    ("b s h d -> b s (h r=4) d", (8, 2048, 8, 64), INNERMOST_STAYS),
    ("[:, :, 16:48]", (8, 2048, 64, 64), INNERMOST_STAYS),
    ("chunks(axis=1, order=1 0)", (4096, 8192), INNERMOST_STAYS),
    ("ungroup(axis=0, groups=8, parts=512 128 128)", (6144, 5120), INNERMOST_STAYS),
    ("a b -> b a", (8192, 4096), INNERMOST_MOVES),
    ("a b -> b a", (32768, 1024), INNERMOST_MOVES),
    ("a b -> b a", (128256, 256), INNERMOST_MOVES),
    ("b s h d -> b h d s", (8, 1024, 32, 128), INNERMOST_MOVES),
    ("a b c (d=64 e) -> a b c (e d)", (8, 1024, 32, 128), INNERMOST_MOVES),
]


def run(folder: Path) -> list[Row]:
    """The rows of this part; files are made in `folder`."""
    engines: tuple[Engine, ...] = ("numpy", "auto")
    rows = [_through(folder, *recipe, engine) for engine in engines for recipe in RECIPES]
    return [*rows, *_solving()]


def _through(folder: Path, text: str, shape: tuple[int, ...], bound: float, engine: Engine) -> Row:
    candidate = _saved(folder / "candidate.npy", np.random.default_rng(0).standard_normal(shape, np.float32))
    recipe = Recipe.parse(text)
    values = np.ascontiguousarray(recipe.apply([candidate]).view())
    reference, plain = (_saved(folder / f"{name}.npy", values) for name in ("reference", "plain"))
    through, straight = _alternating(
        lambda: measure_pair(reference, recipe.apply([candidate]), TOLERANCE, engine=engine, threads=THREADS),
        lambda: measure_pair(reference, plain, TOLERANCE, engine=engine, threads=THREADS),
    )
    return at_most(f"{text}, of {list(shape)}, {engine}", through / straight, "x", bound)


def _solving() -> list[Row]:
    x = np.random.default_rng(0).standard_normal((64, 128, 16, 32), np.float32)
    unrelated = ArraySource(np.random.default_rng(1).standard_normal(x.shape, np.float32))
    whole = ArraySource(x)
    turned = ArraySource(np.ascontiguousarray(x.transpose(2, 0, 3, 1)))
    row, off = (np.random.default_rng(seed).standard_normal((2, 14, 48), np.float32) for seed in (2, 3))
    inherits = ArraySource(row + 0.1 * off), ArraySource(np.ascontiguousarray((row + 0.1 * off).swapaxes(0, 1)))
    return [
        at_most("equal tensors: no search", 1e3 * _best(lambda: solve(whole, ArraySource(x))), "ms", 1),
        at_most("axes in another order found", 1e3 * _best(lambda: solve(whole, turned)), "ms", 50),
        at_most("unrelated values given up", 1e3 * _best(lambda: solve(whole, unrelated)), "ms", 50),
        at_most("error inherited, equal shapes", 1e3 * _best(lambda: solve(ArraySource(row), inherits[0])), "ms", 10),
        at_most("error inherited, other shapes", 1e3 * _best(lambda: solve(ArraySource(row), inherits[1])), "ms", 10),
    ]


def _saved(path: Path, values: np.ndarray) -> Source:
    np.save(path, values)
    blob = file_blob(path)
    return open_array(blob, read_header(blob))


def _alternating(one: Callable[[], object], other: Callable[[], object]) -> tuple[float, float]:
    """The best times of two calls, taken in turns so that both meet the same weather."""
    times = [(_seconds(one), _seconds(other)) for _ in range(TIMES)]
    return min(time[0] for time in times), min(time[1] for time in times)


def _best(call: Callable[[], object]) -> float:
    """The least CPU time of a call in this thread, which other processes do not change."""
    times = []
    for _ in range(TIMES):
        start = time.thread_time()
        call()
        times.append(time.thread_time() - start)
    return min(times)


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
