from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from firstdiff.capturing import record, tap
from firstdiff.errors import UsageError, WriteError
from firstdiff.readers import open_trace
from tests.capturing.models import keys, line, values


def test_values_are_recorded_in_order_with_what_is_said_of_them(tmp_path: Path) -> None:
    with record(tmp_path / "t", seed=3) as rec:
        rec.tap("mel", np.ones((2, 3), np.float32), dims="b f", hop=160)
        rec.tap("ids", [1, 2, 3], step=4)
    trace = open_trace(tmp_path / "t")
    assert keys(trace) == ["mel", "ids#s4"]
    assert line(trace, "mel") == {"name": "mel", "role": "tap", "seq": 0, "attrs": {"hop": 160}, "dims": "b f"}
    assert trace.header["seed"] == 3
    assert trace.header["complete"] is True


def test_a_value_is_given_back_as_it_is(tmp_path: Path) -> None:
    x = torch.ones(2)
    with record(tmp_path / "t") as rec:
        assert rec.tap("x", x) is x
        assert tap("y", x) is x
    assert keys(open_trace(tmp_path / "t")) == ["x", "y"]


def test_a_name_that_comes_again_is_the_next_call(tmp_path: Path) -> None:
    with record(tmp_path / "t") as rec:
        for number in range(3):
            rec.tap("x", number)
    trace = open_trace(tmp_path / "t")
    assert keys(trace) == ["x", "x@1", "x@2"]
    assert values(trace, "x@2") == 2


def test_a_role_has_calls_of_its_own(tmp_path: Path) -> None:
    with record(tmp_path / "t", metadata={"vocab_size": 4}) as rec:
        rec.tap("norm", [1.0], role="input")
        rec.tap("norm", [2.0], role="output")
        rec.tap("norm.weight", [3.0], role="param")
        with pytest.raises(UsageError, match=r"'inptu' is no role \(did you mean input"):
            rec.tap("norm", [1.0], role="inptu")  # type: ignore[arg-type]
    trace = open_trace(tmp_path / "t")
    assert keys(trace) == ["norm:in.0", "norm", "norm.weight:param"]
    assert trace.header["metadata"] == {"vocab_size": 4}


def test_the_values_are_those_of_the_moment(tmp_path: Path) -> None:
    x = np.ones(3)
    with record(tmp_path / "t") as rec:
        rec.tap("x", x)
        x[:] = 5
    np.testing.assert_array_equal(values(open_trace(tmp_path / "t"), "x"), np.ones(3))


def test_containers_have_slots(tmp_path: Path) -> None:
    with record(tmp_path / "t") as rec:
        rec.tap("out", {"a": np.ones(2), "b": (torch.ones(1), [1, 2])})
    assert keys(open_trace(tmp_path / "t")) == ["out:out.a", "out:out.b.0", "out:out.b.1"]


def test_the_path_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTDIFF_TRACE", str(tmp_path / "env"))
    with record() as rec:
        rec.tap("x", 1)
    assert rec.path == tmp_path / "env"
    assert keys(open_trace(tmp_path / "env")) == ["x"]


class Untouchable:
    """A value whose copying fails the test."""

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise AssertionError("was copied")


@pytest.mark.parametrize("unset", [None, ""])
def test_without_a_path_and_the_variable_taps_copy_nothing(
    unset: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FIRSTDIFF_TRACE", raising=False)
    if unset is not None:
        monkeypatch.setenv("FIRSTDIFF_TRACE", unset)
    value = Untouchable()
    with record() as rec:
        assert rec.path is None
        assert rec.tap("x", value, step=2, dims="b s", eps=1e-5) is value
        assert tap("y", value) is value
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="there is no place to record to"):
        record("")


def test_a_recording_of_nothing_leaves_the_one_around_it_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FIRSTDIFF_TRACE", raising=False)
    with record(tmp_path / "t"), record():
        tap("x", 1)
    assert keys(open_trace(tmp_path / "t")) == ["x"]


def test_the_inputs_of_a_run_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with record(tmp_path / "a") as rec:
        assert rec.input is None
    monkeypatch.setenv("FIRSTDIFF_INPUT", str(tmp_path / "ids.npy"))
    with record(tmp_path / "b") as rec:
        assert rec.input == tmp_path / "ids.npy"
    assert "input" not in open_trace(tmp_path / "a").header
    assert open_trace(tmp_path / "b").header["input"] == str(tmp_path / "ids.npy")


def test_names_may_be_filtered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTDIFF_ONLY", "mel.*,ids")
    with record(tmp_path / "t", exclude=["*.raw"]) as rec:
        for name in ("mel.raw", "mel.log", "ids", "x"):
            rec.tap(name, 1)
    assert keys(open_trace(tmp_path / "t")) == ["mel.log", "ids"]


def test_an_existing_trace_is_replaced_only_on_request(tmp_path: Path) -> None:
    for _ in range(2):
        with record(tmp_path / "t", overwrite=True) as rec:
            rec.tap("x", 1)
    with pytest.raises(WriteError, match="holds a trace already"), record(tmp_path / "t"):
        pass
    assert tap("y", 1) == 1


def test_an_exception_keeps_what_was_recorded(tmp_path: Path) -> None:
    with pytest.raises(KeyError), record(tmp_path / "t") as rec:
        rec.tap("x", 1)
        raise KeyError("mine")
    trace = open_trace(tmp_path / "t")
    assert keys(trace) == ["x"]
    assert trace.header["complete"] is False
    assert trace.header["error"] == "KeyError: 'mine'"


def test_a_process_that_is_killed_loses_nothing_that_was_tapped(tmp_path: Path) -> None:
    code = """
import os, sys
from firstdiff.capturing import record
with record(sys.argv[1]) as rec:
    rec.tap("a", [1, 2])
    rec.tap("b", [3])
    os.abort()
"""
    assert subprocess.run([sys.executable, "-c", code, tmp_path / "t"], check=False, capture_output=True).returncode
    assert keys(open_trace(tmp_path / "t")) == ["a", "b"]


def test_tapping_outside_the_with_says_so(tmp_path: Path) -> None:
    rec = record(tmp_path / "t")
    with pytest.raises(UsageError, match="tap inside `with record"):
        rec.tap("x", 1)
    assert not (tmp_path / "t").exists()


def test_threads_may_tap_at_the_same_time(tmp_path: Path) -> None:
    with record(tmp_path / "t") as rec, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: rec.tap(f"thread{n % 4}", np.full(100, n)), range(80)))
    trace = open_trace(tmp_path / "t")
    assert len(set(keys(trace))) == 80
    assert sorted(int(tensor.values().read()[0]) for tensor in trace) == list(range(80))
    lines = (tmp_path / "t" / "tensors.jsonl").read_text().splitlines()
    assert [json.loads(text)["seq"] for text in lines] == list(range(80))


def test_rank_and_world_go_into_the_lines(tmp_path: Path) -> None:
    with record(tmp_path / "t", rank=1, world=4) as rec:
        rec.tap("x", 1)
    assert keys(open_trace(tmp_path / "t")) == ["x#r1"]


def test_recording_needs_no_torch(tmp_path: Path) -> None:
    code = f"""
import sys
from firstdiff.capturing import record
with record({os.fspath(tmp_path / "t")!r}) as rec:
    rec.tap("x", [1.0])
sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_forked_process_leaves_the_trace_alone(tmp_path: Path) -> None:
    code = """
import os, sys
from firstdiff.capturing import record
with record(sys.argv[1]) as rec:
    rec.tap("a", 1)
    if os.fork() == 0:
        rec.tap("child", 2)
        os._exit(0)
    os.wait()
    rec.tap("b", 3)
"""
    subprocess.run([sys.executable, "-c", code, tmp_path / "t"], check=True)
    assert keys(open_trace(tmp_path / "t")) == ["a", "b"]


def test_a_forked_process_that_lives_on_does_not_keep_the_folder(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from firstdiff.capturing import record
with record(sys.argv[1]):
    child = os.fork()
    if child == 0:
        signal.pause()
try:
    with record(sys.argv[1], overwrite=True) as rec:
        rec.tap("again", 1)
finally:
    os.kill(child, signal.SIGKILL)
    os.wait()
"""
    subprocess.run([sys.executable, "-c", code, tmp_path / "t"], check=True, timeout=60)
    assert keys(open_trace(tmp_path / "t")) == ["again"]
