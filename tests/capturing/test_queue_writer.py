from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize("beside", [False, True])
def test_what_waits_is_bounded_in_bytes(tmp_path: Path, beside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    let_through = threading.Event()
    save = TraceWriter.save

    def when_let_through(*given: Any) -> dict[str, Any]:
        assert let_through.wait(30)
        return save(*given)

    monkeypatch.setattr(TraceWriter, "save", when_let_through)
    with TraceWriter(tmp_path / "t") as trace:
        queue = QueueWriter(trace, waiting_bytes=1000, beside=beside)
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
        let_through.set()
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


def test_model_and_writer_take_turns_unless_the_model_computes_elsewhere(tmp_path: Path) -> None:
    def written(beside: bool) -> int:
        with TraceWriter(tmp_path / str(beside)) as trace:
            queue = QueueWriter(trace, waiting_bytes=1000, beside=beside)
            queue.put(Record(name="x", seq=0), np.zeros(100, np.uint8))
            deadline = time.monotonic() + (30 if beside else 0.1)
            while not trace.count and time.monotonic() < deadline:
                time.sleep(0.01)
            count = trace.count
            queue.put(Record(name="y", seq=1), np.zeros(900, np.uint8))
            assert beside or trace.count == 2, "its turn is over when `put` returns"
            queue.finish()
        return count

    assert written(beside=False) == 0
    assert written(beside=True) == 1


def test_what_waits_long_is_written_without_a_turn(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t") as trace:
        queue = QueueWriter(trace)
        queue.put(Record(name="x", seq=0), np.zeros(3))
        deadline = time.monotonic() + 30
        while not trace.count and time.monotonic() < deadline:
            time.sleep(0.01)
        assert trace.count == 1
        queue.finish()


def test_no_values_are_left_behind_without_a_line(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t") as trace:
        queue = QueueWriter(trace)
        queue.put(Record(name="fine", seq=0), np.zeros(3))
        queue.put(Record(name="bad", seq=1), np.array(["text"]))
        for number in range(2, 20):
            queue.put(Record(name=f"x{number}", seq=number), np.zeros(1000))
        queue.finish()
    assert [file.name for file in (tmp_path / "t").glob("*.npy")] == ["000000.npy"]
