"""Measuring: what a pair in memory costs, against plain reading of both arrays and against the peers.

Ratios of CPU time in one run, medians of turns: on a machine that others use, wall time says little.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import ml_dtypes
import numpy as np

from bench.row import Row, at_least, at_most
from firstdiff.align import Recipe
from firstdiff.measure import EXACT, Allowed, describe_library, measure_pair
from firstdiff.trace import ArraySource, Source

SHAPE = (8192, 4096)  # 128 MB of float32, well beyond the caches
PEER_ROWS = 2048
REPEATS = 7
PEER_REPEATS = 3
TOLERANCE = Allowed(1e-5, 1.3e-6)
ASSERT_CLOSE, ALLCLOSE, POLYGRAPHY = "torch.testing.assert_close", "np.allclose", "polygraphy SimpleCompareFunc"

Work = Callable[[], object]


def run(_: Path | None = None) -> list[Row]:
    """The rows of this part; no files are needed."""
    print(describe_library())
    reference, candidate = _pair()
    return [
        *_types(reference, candidate),
        *_hard_data(reference, candidate),
        *_layouts(reference),
        *_peers(reference[:PEER_ROWS], candidate[:PEER_ROWS]),
        _small(),
    ]


def _pair() -> tuple[np.ndarray, np.ndarray]:
    """A healthy pair: the last bits differ."""
    rng = np.random.default_rng(0)
    reference = rng.standard_normal(SHAPE, dtype=np.float32)
    candidate = rng.standard_normal(SHAPE, dtype=np.float32)
    candidate *= np.float32(1e-7)
    candidate += reference
    return reference, candidate


def _types(reference: np.ndarray, candidate: np.ndarray) -> list[Row]:
    half = slice(None, SHAPE[0] // 2)
    wide = [side[half].astype(np.float64) for side in (reference, candidate)]
    brain, ieee = (
        [side.astype(dtype) for side in (reference, candidate)] for dtype in (ml_dtypes.bfloat16, np.float16)
    )
    cost = _costs(
        {
            "read": partial(_read, reference, candidate),
            "float32": partial(_measure, reference, candidate),
            "every metric": partial(_measure, reference, candidate, full=True),
            "mismatch": partial(_measure, reference, candidate, allowed=EXACT),
            "numpy": partial(_measure, reference, candidate, engine="numpy"),
            "bf16": partial(_measure, *brain, allowed=Allowed(0.1, 0.1)),
            "fp16": partial(_measure, *ieee, allowed=Allowed(0.1, 0.1)),
            "read float64": partial(_read, *wide),
            "float64": partial(_measure, *wide),
        }
    )
    bytes_read = 2 * reference.nbytes
    return [
        Row("reading two float32 arrays of 128 MB, one thread", bytes_read / cost["read"] / 1e9, "GB/s"),
        at_most("float32 with sums of rows and channels, of reading", cost["float32"] / cost["read"], "x", 1.5),
        at_most("bf16, of float32 by element", cost["bf16"] / cost["float32"], "x", 1.3),
        at_most("fp16, of float32 by element", cost["fp16"] / cost["float32"], "x", 1.3),
        at_most("float64, of reading float64", cost["float64"] / cost["read float64"], "x", 1.9),
        at_most("every metric, of reading", cost["every metric"] / cost["read"], "x", 4),
        Row("a mismatch (count and every metric), of reading", cost["mismatch"] / cost["read"], "x"),
        Row("numpy, of reading", cost["numpy"] / cost["read"], "x"),
    ]


def _hard_data(reference: np.ndarray, candidate: np.ndarray) -> list[Row]:
    """Measure data that take other paths through the kernel, against ordinary data of the same size."""
    r, c = reference[:PEER_ROWS], candidate[:PEER_ROWS]
    rng = np.random.default_rng(1)
    holes = rng.random(r.shape) < 0.1
    mask = np.triu(np.ones(r.shape, bool), 1)
    tiny = np.float32(1e-40)
    sides = {
        "NaN in a tenth": (np.where(holes, np.nan, r), np.where(holes, np.nan, c)),
        "-Inf masks": (np.where(mask, -np.inf, r), np.where(mask, -np.inf, c)),
        "subnormal numbers": (r * tiny, c * tiny),
        "whole numbers": (np.rint(9 * r), np.rint(9 * r) + holes),
        "zeros": (np.maximum(r, 0), np.maximum(r, 0) + np.float32(1e-6) * (c > 0)),
        "all 1 % larger": (r, r * np.float32(1.01)),
        "an offset of 1000": (r + 1000, c + 1000),
    }
    works: dict[str, Work] = {"ordinary": partial(_measure, r, c, allowed=Allowed(1e30, 1.0))}
    for name, (left, right) in sides.items():
        pair = left.astype(np.float32), right.astype(np.float32)
        works[name] = partial(_measure, *pair, allowed=Allowed(1e30, 1.0), equal_nan=True)
    cost = _costs(works)
    return [at_most(f"{name}, of ordinary data", cost[name] / cost["ordinary"], "x", 3) for name in sides]


def _layouts(values: np.ndarray) -> list[Row]:
    rows = []
    for text, shape, bound in (
        ("b s h d -> b h s d", (4, 1024, 32, 128), 2.3),
        ("a b -> b a", (4096, 4096), 6.0),
        ("b s h d -> b h d s", (4, 1024, 32, 128), 6.0),
    ):
        candidate = ArraySource(values.reshape(-1)[: int(np.prod(shape))].reshape(shape))
        made = Recipe.parse(text).apply([candidate])
        reference = ArraySource(made.window(0, made.size).copy().reshape(made.shape))
        cost = _costs(
            {
                "read": partial(_read, reference.view(), candidate.view()),
                "through": partial(_measure_sources, reference, made),
            }
        )
        rows.append(at_most(f"{text}, of reading", cost["through"] / cost["read"], "x", bound))
    return rows


def _peers(reference: np.ndarray, candidate: np.ndarray) -> list[Row]:
    """The peers on the same arrays."""
    import torch

    tensors = torch.from_numpy(reference), torch.from_numpy(candidate)
    cost = _costs(
        {
            "kernel": partial(_measure, reference, candidate),
            ASSERT_CLOSE: partial(torch.testing.assert_close, *tensors, rtol=1.3e-6, atol=1e-5),
            ALLCLOSE: partial(np.allclose, candidate, reference, rtol=1.3e-6, atol=1e-5),
            POLYGRAPHY: partial(_polygraphy, reference, candidate),
        },
        PEER_REPEATS,
    )
    return [
        at_least(f"times faster than {name}", cost[name] / cost["kernel"], "x", bound)
        for name, bound in ((ASSERT_CLOSE, 10.0), (ALLCLOSE, 2.0), (POLYGRAPHY, 20.0))
    ]


def _small() -> Row:
    reference = np.random.default_rng(0).standard_normal((100, 100)).astype(np.float32)
    candidate = reference + np.float32(1e-7)
    work = partial(measure_pair, ArraySource(reference), ArraySource(candidate), TOLERANCE)
    return at_most("a pair of 10,000 elements, every metric", 1e6 * _costs({"small": work}, 300)["small"], "us", 100)


def _measure(reference: np.ndarray, candidate: np.ndarray, **options: object) -> object:
    return _measure_sources(ArraySource(reference), ArraySource(candidate), **options)


def _measure_sources(reference: Source, candidate: Source, **options: object) -> object:
    return measure_pair(reference, candidate, **({"allowed": TOLERANCE} | options))  # type: ignore[arg-type]


def _read(reference: np.ndarray, candidate: np.ndarray) -> None:
    """Merely touch every element of both sides."""
    np.max(reference)
    np.max(candidate)


def _costs(works: dict[str, Work], repeats: int = REPEATS) -> dict[str, float]:
    """Seconds of CPU that each work takes, the median of several turns."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            start = time.process_time()
            work()
            taken[name].append(time.process_time() - start)
    return {name: median(turns) for name, turns in taken.items()}


def _polygraphy(reference: np.ndarray, candidate: np.ndarray) -> object:
    from polygraphy.comparator import IterationResult, SimpleCompareFunc
    from polygraphy.logger import G_LOGGER

    with G_LOGGER.verbosity(G_LOGGER.CRITICAL):
        compare = SimpleCompareFunc(atol=1e-5, rtol=1.3e-6)
        return compare(IterationResult({"x": reference}), IterationResult({"x": candidate}))


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<58} {row.value:>9.3g} {row.unit:<5} {row.target:<8} {row.ok if row.ok is not None else ''}")
