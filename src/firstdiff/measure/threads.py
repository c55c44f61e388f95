"""The windows of a tensor, measured by any number of threads and handed back in the order of the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

Progress = Callable[[int], None]


def each_window(
    size: int, length: int, work: Callable[[int, int], T], *, threads: int = 1, progress: Progress | None = None
) -> Iterator[T]:
    """`work(start, stop)` of every window; `progress` hears how many elements of the tensor are done."""
    bounds = [(start, min(start + length, size)) for start in range(0, size, length)]
    if threads <= 1 or len(bounds) <= 1:
        results: Iterator[T] = (work(*bound) for bound in bounds)
        yield from _reported(results, bounds, progress)
        return
    pool = ThreadPoolExecutor(min(threads, len(bounds)), thread_name_prefix="firstdiff-measure")
    try:
        yield from _reported(pool.map(lambda bound: work(*bound), bounds), bounds, progress)
    finally:
        pool.shutdown(cancel_futures=True)


def _reported(results: Iterator[T], bounds: list[tuple[int, int]], progress: Progress | None) -> Iterator[T]:
    for result, (_, stop) in zip(results, bounds, strict=True):
        if progress is not None:
            progress(stop)
        yield result
