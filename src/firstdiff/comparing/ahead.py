"""Results in the order of the items, while other threads work ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_order(items: Sequence[T], work: Callable[[T], R], aside: Sequence[bool], workers: int) -> Iterator[R]:
    """`work` of every item; those that `aside` says True of are done by other threads, the rest as they come."""
    if workers <= 1 or sum(aside) <= 1:
        yield from map(work, items)
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="firstdiff-compare")
    try:
        ahead = [pool.submit(work, item) if apart else None for item, apart in zip(items, aside, strict=True)]
        for item, result in zip(items, ahead, strict=True):
            yield work(item) if result is None else result.result()
    finally:
        pool.shutdown(cancel_futures=True)
