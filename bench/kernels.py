"""Measuring: how fast a pair in memory is measured, against reading it and against the peers. All in one run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median

import ml_dtypes
import numba
import numpy as np

from bench.row import Row, at_least
from firstdiff.measure import EXACT, Allowed, measure_pair
from firstdiff.trace import ArraySource

ELEMENTS = 64 << 20  # 256 MB of float32, well beyond the caches
PEER_ELEMENTS = 8 << 20
WINDOW = 2 << 20
THREADS = min(os.cpu_count() or 1, 2)
REPEATS = 7
PEER_REPEATS = 3
PEER_SECONDS = 0.2  # that a work is repeated for in a turn, lest a hiccup decide about a short one
TOLERANCE = Allowed(1e-5, 1.3e-6)
ASSERT_CLOSE, ALLCLOSE, POLYGRAPHY = "torch.testing.assert_close", "np.allclose", "polygraphy SimpleCompareFunc"

Work = Callable[[], object]


def run(_: Path | None = None) -> list[Row]:
    """The rows of this part; no files are needed."""
    reference, candidate = _pair()
    return [*_float32(reference, candidate), *_halves(reference, candidate), *_peers(reference, candidate), _small()]


def _pair() -> tuple[np.ndarray, np.ndarray]:
    """A healthy pair: the last bits differ."""
    rng = np.random.default_rng(0)
    reference = rng.standard_normal(ELEMENTS, dtype=np.float32)
    candidate = rng.standard_normal(ELEMENTS, dtype=np.float32)
    candidate *= np.float32(1e-7)
    candidate += reference
    return reference, candidate


def _float32(reference: np.ndarray, candidate: np.ndarray) -> list[Row]:
    measured = partial(_measure, reference, candidate)
    speeds, shares = _timed(
        {
            **_readers(reference, candidate),
            "numba": partial(measured, engine="numba"),
            "full": partial(measured, engine="numba", full=True),
            "mismatch": partial(measured, allowed=EXACT, engine="numba"),
            "numpy": partial(measured, engine="numpy"),
        },
        reference.nbytes + candidate.nbytes,
    )
    return [
        Row(f"reading two float32 arrays of 256 MB, {THREADS} threads", speeds["read"], "GB/s"),
        Row("verdict's metrics, numba", speeds["numba"], "GB/s"),
        at_least("verdict's metrics, numba, of reading", shares["numba"], "", 0.5),
        Row("every metric, numba", speeds["full"], "GB/s"),
        at_least("every metric, numba, of reading", shares["full"], "", 0.2),
        Row("a mismatch (verdict, count, every metric), numba", speeds["mismatch"], "GB/s"),
        Row("verdict's metrics, numpy", speeds["numpy"], "GB/s"),
        Row("verdict's metrics, numpy, of reading", shares["numpy"], ""),
    ]


def _halves(reference: np.ndarray, candidate: np.ndarray) -> list[Row]:
    rows = []
    for name, dtype in (("bf16", np.dtype(ml_dtypes.bfloat16)), ("fp16", np.dtype(np.float16))):
        sides = [_as_half(side, dtype) for side in (reference, candidate)]
        speeds, shares = _timed(
            {
                **_readers(*(side.view(np.float32) for side in sides)),
                "numba": partial(_measure, *sides, allowed=Allowed(0.1, 0.1), engine="numba"),
            },
            sum(side.nbytes for side in sides),
        )
        rows.append(Row(f"verdict's metrics, {name}, numba", speeds["numba"], "GB/s"))
        rows.append(at_least(f"verdict's metrics, {name}, numba, of reading", shares["numba"], "", 0.3))
    return rows


def _peers(reference: np.ndarray, candidate: np.ndarray) -> list[Row]:
    """The peers on the same arrays; Polygraphy, which copies a lot, on an eighth of them. And what reading alone takes,
    which nothing that looks at every element can beat.
    """
    import torch

    r, c = reference[:PEER_ELEMENTS], candidate[:PEER_ELEMENTS]
    tensors = torch.from_numpy(reference), torch.from_numpy(candidate)
    reader = _readers(reference, candidate)["read by numba"]
    works: dict[str, tuple[Work, int]] = {
        "reading": (reader, reference.size),
        "numba": (partial(_measure, reference, candidate, engine="numba"), reference.size),
        "numpy": (partial(_measure, reference, candidate, engine="numpy"), reference.size),
        ASSERT_CLOSE: (partial(torch.testing.assert_close, *tensors, rtol=1.3e-6, atol=1e-5), reference.size),
        ALLCLOSE: (partial(np.allclose, candidate, reference, rtol=1.3e-6, atol=1e-5), reference.size),
        POLYGRAPHY: (partial(_polygraphy, r, c), r.size),
    }
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(PEER_REPEATS):
        for name, (work, size) in works.items():
            taken[name].append(_steady_seconds(work) / size)
    each = {name: median(turns) for name, turns in taken.items()}
    rows = []
    for name, target in ((ASSERT_CLOSE, 50.0), (ALLCLOSE, 20.0), (POLYGRAPHY, None)):
        rows.append(Row(name, 8e-9 / each[name], "GB/s"))
        times = each[name] / each["numba"]
        rows.append(
            at_least(f"numba, of {name}", times, "x", target) if target else Row(f"numba, of {name}", times, "x")
        )
        rows.append(Row(f"numpy, of {name}", each[name] / each["numpy"], "x"))
    rows.append(Row(f"reading alone, of {ASSERT_CLOSE}", each[ASSERT_CLOSE] / each["reading"], "x"))
    return rows


def _small() -> Row:
    reference = np.random.default_rng(0).standard_normal((16, 64)).astype(np.float32)
    candidate = reference + np.float32(1e-7)
    work = partial(measure_pair, ArraySource(reference), ArraySource(candidate), TOLERANCE)
    taken = [_seconds(work) for _ in range(300)]
    return Row("a pair of 16 x 64, every metric", 1e6 * median(taken), "us")


def _measure(
    reference: np.ndarray, candidate: np.ndarray, *, allowed: Allowed = TOLERANCE, engine: str, full: bool = False
) -> object:
    return measure_pair(
        ArraySource(reference), ArraySource(candidate), allowed, engine=engine, full=full, threads=THREADS
    )


def _readers(reference: np.ndarray, candidate: np.ndarray) -> dict[str, Work]:
    """Ways to merely touch every element of both sides."""
    flags = {"contract", "reassoc", "nsz", "arcp"}

    @numba.njit(nogil=True, fastmath=flags)
    def summed(values: np.ndarray) -> np.float32:
        total = np.float32(0)
        for i in range(values.size):
            total += values[i]
        return total

    pool = ThreadPoolExecutor(THREADS)

    def read(touch: Callable[[np.ndarray], object]) -> None:
        def window(start: int) -> None:
            touch(reference[start : start + WINDOW])
            touch(candidate[start : start + WINDOW])

        list(pool.map(window, range(0, reference.size, WINDOW)))

    return {f"read by {name}": partial(read, touch) for name, touch in (("numba", summed), ("numpy", np.max))}


def _timed(works: dict[str, Work], size: int, repeats: int = REPEATS) -> tuple[dict[str, float], dict[str, float]]:
    """GB/s of each work, the median of several turns, and its share of the best reader's speed turn by turn."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(repeats):
        for name, work in works.items():
            taken[name].append(_seconds(work))
    readers = [turns for name, turns in taken.items() if name.startswith("read by")]
    if readers:
        taken["read"] = [min(turn) for turn in zip(*readers, strict=True)]
    speeds = {name: size / median(turns) / 1e9 for name, turns in taken.items()}
    shares = {
        name: median(read / own for read, own in zip(taken["read"], turns, strict=True))
        for name, turns in taken.items()
        if readers
    }
    return speeds, shares


def _seconds(work: Work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _steady_seconds(work: Work) -> float:
    """The median of as many runs as fill some time."""
    taken = [_seconds(work)]
    while sum(taken) < PEER_SECONDS:
        taken.append(_seconds(work))
    return median(taken)


def _as_half(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    parts = [values[start : start + WINDOW].astype(dtype) for start in range(0, values.size, WINDOW)]
    return np.concatenate(parts)


def _polygraphy(reference: np.ndarray, candidate: np.ndarray) -> object:
    from polygraphy.comparator import IterationResult, SimpleCompareFunc
    from polygraphy.logger import G_LOGGER

    with G_LOGGER.verbosity(G_LOGGER.CRITICAL):
        compare = SimpleCompareFunc(atol=1e-5, rtol=1.3e-6)
        return compare(IterationResult({"x": reference}), IterationResult({"x": candidate}))


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<58} {row.value:>9.3g} {row.unit:<5} {row.target:<8} {row.ok if row.ok is not None else ''}")
