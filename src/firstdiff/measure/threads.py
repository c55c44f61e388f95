"""The parts of a tensor, measured by any number of threads and handed back in the order of the data."""

from __future__ import annotations

import _thread
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
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
    done: dict[int, T] = {}
    go_on = partial(_go_on, deque(enumerate(parts)), work, done)
    helpers = min(threads, len(parts)) - 1
    if helpers > 0:
        with _helped(go_on, helpers):
            go_on(progress)
        if progress is not None:
            progress(parts[-1][1])
    else:
        go_on(progress)
    return [done[at] for at in range(len(parts))]


def _go_on(
    waiting: deque[tuple[int, Bounds]],
    work: Callable[[int, int], T],
    done: dict[int, T],
    progress: Progress | None = None,
) -> None:
    try:
        while (turn := _next_of(waiting)) is not None:
            at, (start, stop) = turn
            done[at] = work(start, stop)
            if progress is not None:
                progress(stop)
    except BaseException:
        waiting.clear()  # the others need not go on
        raise


def _next_of(waiting: deque[T]) -> T | None:
    try:
        return waiting.popleft()
    except IndexError:
        return None


@contextmanager
def _helped(work: Callable[[], None], helpers: int) -> Iterator[None]:
    """Threads that do the same meanwhile; at the end they are waited for, and what one of them raised is raised."""
    errors: list[BaseException] = []
    ends: list[_thread.LockType] = []

    def help_out(end: _thread.LockType) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)
        finally:
            end.release()

    try:
        for _ in range(helpers):
            end = _thread.allocate_lock()
            end.acquire()
            _thread.start_new_thread(help_out, (end,))  # a pool, or a Thread, would wait until it has begun
            ends.append(end)
        yield
    finally:
        for end in ends:
            end.acquire()
    if errors:
        raise errors[0]
