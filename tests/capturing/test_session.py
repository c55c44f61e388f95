from __future__ import annotations

import numpy as np

from firstdiff.capturing.session import Filters, Place, Session
from firstdiff.trace import Record


class Kept:
    def __init__(self) -> None:
        self.records: list[Record] = []

    def put(self, record: Record, values: np.ndarray | int) -> None:
        self.records.append(record)


def test_tensors_are_numbered_one_by_one() -> None:
    sink = Kept()
    session = Session(sink, Filters(), rank=2, world=4)
    seqs = [session.emit(Place("x", call=n), "output", np.ones(1)) for n in range(3)]
    assert seqs == [0, 1, 2] == [record.seq for record in sink.records]
    assert {(record.rank, record.world) for record in sink.records} == {(2, 4)}


def test_calls_are_counted_within_a_step() -> None:
    session = Session(Kept(), Filters())
    assert session.count_call("x", 0) == 0
    assert session.begin_step() == 0
    assert session.count_call("x", 0) == 1
    assert session.calls_before == {"x": 1}
    assert session.begin_step() == session.step == 1
    assert session.count_call("x", 1) == 0
    assert session.count_call("x", 0) == 2, "another thread may still be in the step before"


def test_after_a_failure_nothing_is_wanted_and_the_first_error_is_kept() -> None:
    session = Session(Kept(), Filters())
    assert session.wants("x", "output")
    first = ValueError("first")
    session.fail(first)
    session.fail(ValueError("second"))
    assert session.failure is first
    assert not session.wants("x", "output")


def test_what_is_left_out_is_counted_with_examples() -> None:
    session = Session(Kept(), Filters())
    for number in range(9):
        session.skip(f"x{number}", "sparse")
    session.skip("y", "too large", asked_for=True)
    assert session.surprises() == ["left out: sparse (x0, x1, x2, x3, x4 and 4 more)"]
    assert session.summary() == {
        "steps": 1,
        "skipped": [
            {"reason": "sparse", "count": 9, "examples": ["x0", "x1", "x2", "x3", "x4"]},
            {"reason": "too large", "count": 1, "examples": ["y"]},
        ],
    }
