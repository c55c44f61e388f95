from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from firstdiff.capturing.queue_writer import QueueWriter
from firstdiff.errors import WriteError
from firstdiff.readers import open_trace
from firstdiff.trace import Record, TraceWriter


def test_tensors_are_written_in_order(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t") as trace:
        queue = QueueWriter(trace)
        for number in range(50):
            queue.put(Record(name=f"x{number}", seq=number), np.full(3, number))
        queue.put(Record(name="again", seq=50), 7)
        queue.finish()
    assert queue.error is None
    found = open_trace(tmp_path / "t")
    assert [tensor.name for tensor in found] == [*(f"x{number}" for number in range(50)), "again"]
    np.testing.assert_array_equal(found["again"].values().read(), [7, 7, 7])


class Gate:
    """A trace writer that waits until it is let through, and notes how much it was given."""

    def __init__(self, trace: TraceWriter) -> None:
        self._trace = trace
        self.open = threading.Event()

    def write(self, record: Record, array: np.ndarray) -> int:
        assert self.open.wait(30)
        return self._trace.write(record, array)


def test_what_waits_is_bounded_in_bytes(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t") as trace:
        gate = Gate(trace)
        queue = QueueWriter(gate, waiting_bytes=1000)  # type: ignore[arg-type]
        accepted = threading.Semaphore(0)

        def produce() -> None:
            for number in range(6):
                queue.put(Record(name=str(number), seq=number), np.zeros(400, np.uint8))
                accepted.release()

        producer = threading.Thread(target=produce)
        producer.start()
        assert accepted.acquire(timeout=30)
        assert accepted.acquire(timeout=30)
        assert not accepted.acquire(timeout=0.2), "a third would be 1200 bytes"
        gate.open.set()
        producer.join(30)
        queue.finish()
    assert len(open_trace(tmp_path / "t")) == 6


def test_one_tensor_larger_than_the_bound_still_passes(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t") as trace:
        queue = QueueWriter(trace, waiting_bytes=10)
        for number in range(3):
            queue.put(Record(name=str(number), seq=number), np.zeros(1000))
        queue.finish()
    assert len(open_trace(tmp_path / "t")) == 3


@pytest.mark.parametrize("spoil", ["dtype", "folder"])
def test_after_a_failure_everything_is_dropped_and_nobody_waits(spoil: str, tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t") as trace:
        queue = QueueWriter(trace, waiting_bytes=10)
        queue.put(Record(name="fine", seq=0), np.zeros(3))
        if spoil == "dtype":
            queue.put(Record(name="bad", seq=1), np.array(["text"]))
        else:
            queue.put(Record(name="bad", seq=1), 99)
        for number in range(20):
            queue.put(Record(name=f"x{number}", seq=number + 2), np.zeros(1000))
        queue.finish()
    assert isinstance(queue.error, WriteError)
    assert "bad" in str(queue.error)
    assert [tensor.name for tensor in open_trace(tmp_path / "t")] == ["fine"]
