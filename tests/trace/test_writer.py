from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstdiff import dtypes
from firstdiff.errors import WriteError
from firstdiff.readers import open_trace
from firstdiff.trace import Record, TraceWriter


def written(folder: Path, *records: Record) -> Path:
    with TraceWriter(folder, producer={"name": "test"}, header={"seed": 42}) as trace:
        for number, record in enumerate(records):
            trace.write(record, np.full((2, 3), number, np.float32))
    return folder


def test_the_files_are_those_of_the_specification(tmp_path: Path) -> None:
    folder = written(
        tmp_path / "a.trace", Record(name="layers.0.ln_1", role="output", seq=17, op="LayerNorm", attrs={"eps": 1e-5})
    )
    assert sorted(file.name for file in folder.iterdir()) == ["000000.npy", "tensors.jsonl", "trace.json"]
    assert json.loads((folder / "trace.json").read_text()) == {
        "format": "firstdiff-trace",
        "version": 1,
        "producer": {"name": "test"},
        "seed": 42,
        "complete": True,
        "tensors": 1,
    }
    assert json.loads((folder / "tensors.jsonl").read_text()) == {
        "name": "layers.0.ln_1",
        "role": "output",
        "seq": 17,
        "op": "LayerNorm",
        "attrs": {"eps": 1e-5},
        "file": "000000.npy",
        "dtype": "float32",
        "shape": [2, 3],
    }
    np.testing.assert_array_equal(np.load(folder / "000000.npy"), np.zeros((2, 3), np.float32))


@pytest.mark.parametrize("name", sorted(dtypes.BY_NAME))
def test_every_dtype_comes_back_bit_for_bit(tmp_path: Path, name: str) -> None:
    dtype = dtypes.from_name(name)
    bits = np.arange(48 * dtype.itemsize, dtype=np.uint8)
    array = (bits % 2).view(bool)[:24].reshape(2, 3, 4) if name == "bool" else bits.view(dtype)[:24].reshape(2, 3, 4)
    with TraceWriter(tmp_path / "a.trace") as trace:
        trace.write(Record(name="x"), array)
        trace.write(Record(name="transposed"), array.T)
    found = open_trace(tmp_path / "a.trace")
    for key, expected in (("x", array), ("transposed", array.T)):
        source = found[key].values()
        assert (source.shape, source.dtype) == (expected.shape, dtype)
        assert source.read().tobytes() == expected.tobytes()
        assert source.window(3, 20).tobytes() == expected.reshape(-1)[3:20].tobytes()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.arange(6).reshape(2, 3).T,
        np.arange(5)[::-1],
        np.zeros((3, 0, 2), np.float16),
        np.array(3.5),
        np.zeros((2, 3), ">f4"),
        np.array([True, False]),
        np.ones((2, 2), np.complex64),
    ],
    ids=lambda array: f"{array.dtype.str}{list(array.shape)}",
)
def test_values_are_what_numpy_saves(tmp_path: Path, array: np.ndarray) -> None:
    with TraceWriter(tmp_path / "t") as trace:
        trace.write(Record(name="x", seq=0), array)
    np.save(tmp_path / "same.npy", array)
    assert (tmp_path / "t" / "000000.npy").read_bytes() == (tmp_path / "same.npy").read_bytes()


@given(
    st.builds(
        Record,
        name=st.text(min_size=1),
        role=st.sampled_from([None, "input", "output", "param", "tap"]),
        slot=st.text(st.characters(exclude_characters="@:#"), max_size=5),
        call=st.integers(0, 9),
        step=st.integers(0, 9),
        rank=st.integers(0, 9),
        world=st.integers(1, 9),
        seq=st.none() | st.integers(0, 9),
        op=st.none() | st.text(),
        attrs=st.dictionaries(st.text(), st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()),
        sources=st.lists(st.integers(0, 99)).map(tuple),
    )
)
def test_a_record_survives_its_line(record: Record) -> None:
    assert Record.from_line(json.loads(json.dumps(record.to_line()))) == record


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({}, "name is None"),
        ({"name": 3}, "name is 3"),
        ({"name": "x", "role": "outptu"}, "role 'outptu' is none of"),
        ({"name": "x", "call": "1"}, "call is '1'"),
        ({"name": "x", "seq": True}, "seq is True"),
        ({"name": "x", "attrs": []}, "attrs is []"),
        ({"name": "x", "slot": "a:b"}, "has one of @ : #"),
    ],
)
def test_a_wrong_field_is_named(line: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        Record.from_line(line)


def test_numbers_that_json_lacks_are_written_as_text(tmp_path: Path) -> None:
    written(tmp_path / "a.trace", Record(name="x", attrs={"low": float("-inf"), "nan": float("nan"), "n": np.int64(3)}))
    line = json.loads((tmp_path / "a.trace" / "tensors.jsonl").read_text())
    assert line["attrs"] == {"low": "-inf", "nan": "nan", "n": 3}


def test_an_existing_trace_is_kept_unless_told_otherwise(tmp_path: Path) -> None:
    folder = written(tmp_path / "a.trace", Record(name="first"), Record(name="second"))
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(WriteError, match="holds a trace already"):
        TraceWriter(folder)
    assert [tensor.name for tensor in open_trace(folder)] == ["first", "second"]
    with TraceWriter(folder, overwrite=True) as trace:
        trace.write(Record(name="third"), np.zeros(1))
    assert [tensor.name for tensor in open_trace(folder)] == ["third"]
    assert (folder / "notes.txt").read_text() == "mine"
    assert not (folder / "000001.npy").exists()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_second_writer_is_refused_while_the_first_writes(tmp_path: Path, overwrite: bool) -> None:
    with TraceWriter(tmp_path / "a.trace") as first:
        first.write(Record(name="x"), np.zeros(3))
        with pytest.raises(WriteError, match="another process is writing a trace"):
            TraceWriter(tmp_path / "a.trace", overwrite=overwrite)
        first.write(Record(name="y"), np.zeros(3))
    assert len(open_trace(tmp_path / "a.trace")) == 2


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match=r"cannot write a trace to .*file"):
        TraceWriter(tmp_path / "file")


def test_what_a_trace_cannot_hold_is_refused_and_the_rest_goes_on(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "a.trace") as trace:
        with pytest.raises(WriteError, match="words has elements of type"):
            trace.write(Record(name="words"), np.array(["a", "b"]))
        trace.write(Record(name="x"), np.zeros(3))
    assert [tensor.name for tensor in open_trace(tmp_path / "a.trace")] == ["x"]


def test_an_exception_closes_the_trace_and_is_told(tmp_path: Path) -> None:
    def fail() -> None:
        with TraceWriter(tmp_path / "a.trace") as trace:
            trace.write(Record(name="x"), np.zeros(3))
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        fail()
    found = open_trace(tmp_path / "a.trace")
    assert [tensor.name for tensor in found] == ["x"]
    assert found.warnings == ("the recording did not finish (RuntimeError: boom); tensors may be missing",)


ENDLESS = """
import sys
import numpy as np
from firstdiff.trace import Record, TraceWriter
writer = TraceWriter(sys.argv[1])
array = np.arange(50_000, dtype=np.float32)
for n in range(1_000_000):
    writer.write(Record(name=f"t{n}", seq=n), array + n)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@settings(max_examples=4, deadline=None)
@given(wait=st.floats(0.0, 0.15))
def test_a_killed_recording_loses_at_most_the_tensor_being_written(
    tmp_path_factory: pytest.TempPathFactory, wait: float
) -> None:
    folder = tmp_path_factory.mktemp("killed") / "a.trace"
    process = subprocess.Popen([sys.executable, "-c", ENDLESS, str(folder)])
    while not (folder / "000003.npy").exists():
        time.sleep(0.005)
        assert process.poll() is None
    time.sleep(wait)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    files = len(list(folder.glob("*.npy")))
    trace = open_trace(folder)
    assert files - 1 <= len(trace) <= files
    assert [tensor.name for tensor in trace] == [f"t{n}" for n in range(len(trace))]
    for n, tensor in enumerate(trace):
        np.testing.assert_array_equal(tensor.values().read(), np.arange(50_000, dtype=np.float32) + n)
    assert "the recording did not finish; tensors may be missing" in trace.warnings
    with TraceWriter(folder, overwrite=True):
        pass
