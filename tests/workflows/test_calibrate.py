from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from firstdiff.errors import UsageError, WriteError
from firstdiff.readers import open_trace
from firstdiff.trace import Record, TraceWriter
from firstdiff.workflows.calibrate import calibrate


def written(path: Path, shift: float = 0.0, *, extra: bool = True, weight: float = 1.0) -> Path:
    x = np.linspace(-1, 1, 80, dtype=np.float32).reshape(20, 4)
    with TraceWriter(path, producer={"name": "test"}) as trace:
        trace.write(Record(name="w", role="param", seq=0), np.full(3, weight, np.float32))
        number = trace.write(Record(name="a", role="output", seq=1), x + np.float32(shift))
        trace.repeat(Record(name="b", role="input", seq=2), number)
        trace.write(Record(name="ids", seq=3), np.arange(3))
        if extra:
            trace.write(Record(name="c", seq=4), x * np.float32(1 + shift))
    return path


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    return written(tmp_path / "ref.trace")


def test_floors_are_the_widest_spread_of_all_runs(reference: Path, tmp_path: Path) -> None:
    runs = [written(tmp_path / "two", 1e-6), written(tmp_path / "three", -3e-6)]
    done = calibrate(reference, runs, tmp_path / "out.trace")
    assert (done.path, done.tensors, done.with_floor, done.warnings) == (tmp_path / "out.trace", 5, 3, ())
    trace = open_trace(tmp_path / "out.trace")
    floor = trace["a"].record.floor
    assert floor is not None
    assert floor["max_abs"] == pytest.approx(3e-6, rel=0.1)
    assert floor["runs"] == 2
    assert floor["how"] == [str(run) for run in runs]
    assert trace["c"].record.floor["channel_gain"] == pytest.approx(3e-6, rel=0.1)  # type: ignore[index]
    assert trace["b:in.0"].record.floor == floor
    assert trace["w:param"].record.floor is None
    assert trace["ids"].record.floor is None


def test_the_copy_is_complete_and_the_reference_unchanged(reference: Path, tmp_path: Path) -> None:
    before = {file.name: file.read_bytes() for file in reference.iterdir()}
    calibrate(reference, [written(tmp_path / "two", 1e-6)], tmp_path / "out.trace")
    assert {file.name: file.read_bytes() for file in reference.iterdir()} == before
    copied = {file.name: file.read_bytes() for file in (tmp_path / "out.trace").iterdir()}
    assert copied.keys() == before.keys()
    assert all(copied[name] == before[name] for name in before if name != "tensors.jsonl")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.trace", "ref.trace", "two"]


def test_the_reference_itself_may_get_the_floors(reference: Path, tmp_path: Path) -> None:
    calibrate(reference, [written(tmp_path / "two", 1e-6)], reference)
    assert open_trace(reference)["a"].record.floor is not None


def test_calls_that_the_writer_did_not_count_each_get_their_own(tmp_path: Path) -> None:
    for name, shift in (("ref", 0.0), ("two", 0.5)):
        with TraceWriter(tmp_path / name) as trace:
            for number in range(3):
                trace.write(Record(name="x"), np.full(4, 1000 + shift * number))
    calibrate(tmp_path / "ref", [tmp_path / "two"], tmp_path / "ref")
    floors = [tensor.record.floor["max_abs"] for tensor in open_trace(tmp_path / "ref")]  # type: ignore[index]
    assert floors == [pytest.approx(0, abs=1e-12), 0.5, 1.0]


def test_archives_and_plain_folders_become_a_trace(reference: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ref.zip", "w") as archive:
        for file in reference.iterdir():
            archive.write(file, file.name)
    two = written(tmp_path / "two", 1e-6)
    calibrate(tmp_path / "ref.zip", [two], tmp_path / "out")
    trace = open_trace(tmp_path / "out")
    assert trace["a"].record.floor is not None
    assert len(trace) == 5
    with pytest.raises(UsageError, match="no trace folder that could be changed in place"):
        calibrate(tmp_path / "ref.zip", [two], tmp_path / "ref.zip")


def test_what_looks_odd_is_told(reference: Path, tmp_path: Path) -> None:
    fewer = written(tmp_path / "fewer", 1e-6, extra=False)
    assert calibrate(reference, [fewer], tmp_path / "a").warnings == (f"1 of 5 tensors are not in {fewer}",)
    broken = written(tmp_path / "broken", 0.5)
    (warning,) = calibrate(reference, [broken], tmp_path / "b").warnings
    assert "a moves by 0.8" in warning
    assert "(and 2 more like it); is that a healthy run" in warning
    other = written(tmp_path / "other", weight=2.0)
    (warning,) = calibrate(reference, [other], tmp_path / "c").warnings
    assert f"w:param is not the same in {other}" in warning


def test_another_trace_is_replaced_only_on_request(reference: Path, tmp_path: Path) -> None:
    two = written(tmp_path / "two", 1e-6)
    with pytest.raises(WriteError, match="exists already"):
        calibrate(reference, [two], two)
    calibrate(reference, [two], two, overwrite=True)
    assert open_trace(two)["a"].record.floor is not None
    (tmp_path / "folder").mkdir()
    with pytest.raises(WriteError, match="exists already"):
        calibrate(reference, [two], tmp_path / "folder", overwrite=True)


def test_a_reference_alone_is_not_enough(reference: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least one more run"):
        calibrate(reference, [], tmp_path / "out")


def test_a_tensor_of_another_shape_has_no_floor(reference: Path, tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "two") as trace:
        trace.write(Record(name="a", seq=0), np.zeros((2, 2), np.float32))
    done = calibrate(reference, [tmp_path / "two"], tmp_path / "out")
    assert done.with_floor == 0
    assert "4 of 5 tensors are not in" in done.warnings[0]
    assert json.loads((tmp_path / "out" / "trace.json").read_text())["complete"] is True
