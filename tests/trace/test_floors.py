from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from firstdiff.errors import WriteError
from firstdiff.readers import open_trace
from firstdiff.trace import Record, TraceWriter
from firstdiff.trace.writer import add_floors


def test_a_repeated_tensor_shares_its_file(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t") as trace:
        number = trace.write(Record(name="a"), np.arange(3))
        assert trace.repeat(Record(name="b"), number) == 1
        trace.write(Record(name="c"), np.zeros(1))
    assert sorted(file.name for file in (tmp_path / "t").glob("*.npy")) == ["000000.npy", "000002.npy"]
    found = open_trace(tmp_path / "t")
    assert [tensor.name for tensor in found] == ["a", "b", "c"]
    np.testing.assert_array_equal(found["b"].values().read(), [0, 1, 2])


def test_floors_are_added_to_lines_and_writing_goes_on(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t") as trace:
        for name in "abc":
            trace.write(Record(name=name, attrs={"ø": 1}), np.zeros(2))
        trace.add_floors({1: {"max_abs": 0.5}})
        trace.write(Record(name="d"), np.zeros(2))
    found = open_trace(tmp_path / "t")
    assert [tensor.record.floor for tensor in found] == [None, {"max_abs": 0.5}, None, None]
    assert [tensor.name for tensor in found] == ["a", "b", "c", "d"]
    assert found["a"].record.attrs == {"ø": 1}
    assert not list((tmp_path / "t").glob("*.new"))


def test_lines_stay_as_they_were_when_floors_cannot_be_written(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t") as trace:
        trace.write(Record(name="a"), np.zeros(2))
    before = (tmp_path / "t" / "tensors.jsonl").read_bytes()
    (tmp_path / "t" / "tensors.jsonl.new").mkdir()
    with pytest.raises(OSError, match="directory"):
        add_floors(tmp_path / "t", {0: {"max_abs": 1.0}})
    assert (tmp_path / "t" / "tensors.jsonl").read_bytes() == before


def test_nothing_follows_a_tensor_that_could_not_be_written(tmp_path: Path) -> None:
    trace = TraceWriter(tmp_path / "t")
    trace.write(Record(name="a"), np.zeros(2))
    (tmp_path / "t" / "000001.npy").mkdir()
    with pytest.raises(WriteError, match="cannot write b"):
        trace.write(Record(name="b"), np.zeros(2))
    (tmp_path / "t" / "000001.npy").rmdir()
    with pytest.raises(WriteError, match="an earlier tensor could not be written"):
        trace.write(Record(name="c"), np.zeros(2))
    trace.abandon("broken")
    assert json.loads((tmp_path / "t" / "trace.json").read_text())["error"] == "broken"
    assert [tensor.name for tensor in open_trace(tmp_path / "t")] == ["a"]
