"""Write a trace from background threads, with a bound on the bytes that wait to be written."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Condition, Thread
from typing import Any, NamedTuple, Protocol, final

import numpy as np

from firstdiff.errors import FirstdiffError, WriteError
from firstdiff.trace import Record, TraceWriter

WAITING_BYTES = 256 << 20
_TURN_BYTES = 32 << 20
_PATIENCE = 0.5  # seconds after which what waits is written, turn or not
_THREADS = min(os.cpu_count() or 1, 2)


class Sink(Protocol):
    """The receiver of recorded tensors, in the order of their `seq`."""

    def put(self, record: Record, values: np.ndarray | int) -> None:
        """Take a tensor: its values, which nobody else changes, or the `seq` of the tensor that has the same ones."""


class _Item(NamedTuple):
    record: Record
    values: np.ndarray | int

    @property
    def size(self) -> int:
        return self.values.nbytes if isinstance(self.values, np.ndarray) else 0


@final
class QueueWriter:
    """Hands tensors to writing threads; `put` waits while more than `waiting_bytes` are queued.

    A model that computes on the processor and its writer take turns: side by side they would take the cores from each
    other, and a model whose threads wait for one another loses more than the writer gains. `beside` a model that
    computes elsewhere, what is put is written at once.

    After a failure (`error`) whatever is put is dropped, so that the caller can go on.
    """

    def __init__(self, trace: TraceWriter, waiting_bytes: int = WAITING_BYTES, *, beside: bool = False) -> None:
        self._trace = trace
        self._limit = waiting_bytes
        self._turn_bytes = 0 if beside else min(_TURN_BYTES, waiting_bytes)
        self._queue: deque[_Item] = deque()
        self._bytes = 0
        self._writing = self._closed = False
        self._changed = Condition()
        self._numbers: dict[int | None, int] = {}
        self.error: FirstdiffError | None = None
        self._thread = Thread(target=self._work, name="firstdiff-writer", daemon=True)
        self._thread.start()

    def put(self, record: Record, values: np.ndarray | int) -> None:
        item = _Item(record, values)
        with self._changed:
            if self._bytes + item.size > self._limit:
                self._begin()
            self._changed.wait_for(lambda: self.error or not self._bytes or self._bytes + item.size <= self._limit)
            if self.error is not None:
                return
            self._queue.append(item)
            self._bytes += item.size
            if self._bytes >= self._turn_bytes:
                self._begin()
                if self._turn_bytes:
                    self._changed.wait_for(lambda: self.error or not self._writing)

    def finish(self) -> None:
        """Write what is left and end the threads; `error` tells whether all went well."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _begin(self) -> None:
        self._writing = True
        self._changed.notify_all()

    def _work(self) -> None:
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="firstdiff-saving") as pool:
            while items := self._next():
                try:
                    self._write(items, pool)
                except FirstdiffError as error:
                    self._fail(error)
                    return

    def _next(self) -> list[_Item]:
        """All that waits, once it is the writer's turn; nothing when there is nothing to come."""
        with self._changed:
            if not self._queue:
                self._writing = False
                self._changed.notify_all()
            while not (self._queue and self._writing) and not self._closed:
                if not self._changed.wait(_PATIENCE) and self._queue:
                    self._writing = True
            items = list(self._queue)
            self._queue.clear()
            return items

    def _write(self, items: list[_Item], pool: ThreadPoolExecutor) -> None:
        """Save the values side by side, then write the lines in order."""
        first = self._trace.count
        try:
            for item, held in zip(items, self._saved(items, pool, first), strict=True):
                if held is not None:
                    number = self._trace.append(item.record, held)
                else:
                    assert isinstance(item.values, int)
                    number = self._trace.repeat(item.record, self._numbers[item.values])
                self._numbers[item.record.seq] = number
        except Exception as error:
            pool.shutdown(cancel_futures=True)
            record = items[self._trace.count - first].record
            for number in range(self._trace.count, first + len(items)):
                self._trace.forget(number)
            raise error if isinstance(error, FirstdiffError) else _unexpected(record, error) from error
        written = sum(item.size for item in items)
        items.clear()  # nothing may hold on to values that no longer count
        with self._changed:
            self._bytes -= written
            self._changed.notify_all()

    def _saved(self, items: list[_Item], pool: ThreadPoolExecutor, first: int) -> Iterator[dict[str, Any] | None]:
        def save(number: int, item: _Item) -> dict[str, Any] | None:
            if isinstance(item.values, int):
                return None
            return self._trace.save(item.record, item.values, number)

        return pool.map(save, range(first, first + len(items)), items)

    def _fail(self, error: FirstdiffError) -> None:
        with self._changed:
            self.error = error
            self._queue.clear()
            self._changed.notify_all()


def _unexpected(record: Record, error: Exception) -> WriteError:
    return WriteError(f"cannot write {record.name} ({type(error).__name__}: {error})")
