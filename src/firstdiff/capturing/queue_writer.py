"""Writes a trace from a thread of its own, with a bound on what waits to be written."""

from __future__ import annotations

from collections import deque
from threading import Condition, Thread
from typing import Protocol, final

import numpy as np

from firstdiff.errors import FirstdiffError, WriteError
from firstdiff.trace import Record, TraceWriter

WAITING_BYTES = 256 << 20


class Sink(Protocol):
    """Where recorded tensors go, in the order of their `seq`."""

    def put(self, record: Record, values: np.ndarray | int) -> None:
        """Take a tensor: its values, which nobody else changes, or the `seq` of the tensor that has the same ones."""


@final
class QueueWriter:
    """Hands tensors to a writing thread; `put` waits while more than `waiting_bytes` are queued.

    After a failure (`error`) whatever is put is dropped, so that the caller can go on.
    """

    def __init__(self, trace: TraceWriter, waiting_bytes: int = WAITING_BYTES) -> None:
        self._trace = trace
        self._limit = waiting_bytes
        self._queue: deque[tuple[Record, np.ndarray | int]] = deque()
        self._bytes = 0
        self._closed = False
        self._changed = Condition()
        self.error: FirstdiffError | None = None
        self._thread = Thread(target=self._work, name="firstdiff-writer", daemon=True)
        self._thread.start()

    def put(self, record: Record, values: np.ndarray | int) -> None:
        size = values.nbytes if isinstance(values, np.ndarray) else 0
        with self._changed:
            self._changed.wait_for(lambda: self.error or not self._bytes or self._bytes + size <= self._limit)
            if self.error is None:
                self._queue.append((record, values))
                self._bytes += size
                self._changed.notify_all()

    def finish(self) -> None:
        """Write what is left and end the thread; `error` tells whether all went well."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _work(self) -> None:
        numbers: dict[int | None, int] = {}
        while (item := self._next()) is not None:
            record, values = item
            try:
                if isinstance(values, np.ndarray):
                    numbers[record.seq] = self._trace.write(record, values)
                else:
                    numbers[record.seq] = self._trace.repeat(record, numbers[values])
            except Exception as error:
                self._fail(error if isinstance(error, FirstdiffError) else _unexpected(record, error))
                return
            if isinstance(values, np.ndarray):
                with self._changed:
                    self._bytes -= values.nbytes
                    self._changed.notify_all()

    def _next(self) -> tuple[Record, np.ndarray | int] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed)
            return self._queue.popleft() if self._queue else None

    def _fail(self, error: FirstdiffError) -> None:
        with self._changed:
            self.error = error
            self._queue.clear()
            self._changed.notify_all()


def _unexpected(record: Record, error: Exception) -> WriteError:
    failure = WriteError(f"cannot write {record.name} ({type(error).__name__}: {error})")
    failure.__cause__ = error
    return failure
