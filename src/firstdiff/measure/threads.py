"""The parts of a tensor, measured by any number of threads and handed back in the order of the data."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

Bounds = tuple[int, int]
Progress = Callable[[int], None]


def each_part(
    parts: list[Bounds], work: Callable[[int, int], T], *, threads: int = 1, progress: Progress | None = None
) -> list[T]:
    """`work(start, stop)` of every part; `progress` hears how many elements of the tensor are done.

    The calling thread works as well: others take a while to begin, and this one hears of Ctrl-C.
    """
    waiting = deque(enumerate(parts))
    done: dict[int, T] = {}

    def go_on(report: Progress | None = None) -> None:
        try:
            while (turn := _next_of(waiting)) is not None:
                at, (start, stop) = turn
                done[at] = work(start, stop)
                if report is not None:
                    report(stop)
        except BaseException:
            waiting.clear()  # the others need not go on
            raise

    helpers = min(threads, len(parts)) - 1
    if helpers > 0:
        with ThreadPoolExecutor(helpers, thread_name_prefix="firstdiff-measure") as pool:
            others = [pool.submit(go_on) for _ in range(helpers)]
            go_on(progress)
            for other in others:
                other.result()
        if progress is not None:
            progress(parts[-1][1])
    else:
        go_on(progress)
    return [done[at] for at in range(len(parts))]


def _next_of(waiting: deque[T]) -> T | None:
    try:
        return waiting.popleft()
    except IndexError:
        return None
