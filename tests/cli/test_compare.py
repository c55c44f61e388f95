from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from firstdiff.cli.console import on_interrupt, stop_if_interrupted
from tests.sample import write_sample

Run = Callable[..., tuple[int, str, str]]
COMMAND = [sys.executable, "-c", "from firstdiff.cli.main import main; main()", "compare"]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_sample(tmp_path_factory.mktemp("sample"))


def test_the_answer_and_the_exit_code(firstdiff: Run, sample: tuple[Path, Path]) -> None:
    code, out, err = firstdiff("compare", *sample)
    assert (code, err) == (1, "")
    assert out.startswith("MISMATCH: ")
    assert "First divergence: layers.2.ln_1, LayerNorm, [1, 24, 64] float32\n" in out
    assert len(out.splitlines()) <= 40
    assert firstdiff("compare", sample[0], sample[0])[0] == 0
    assert firstdiff("compare", *sample, "--atol", "1")[0] == 0


def test_nothing_compared_is_exit_code_1(firstdiff: Run, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros(3), y=np.ones(2))
    np.savez(tmp_path / "b.npz", p=np.arange(100.0), q=np.arange(90.0) * 1e6)
    code, out, _ = firstdiff("compare", tmp_path / "a.npz", tmp_path / "b.npz", "--allow-missing", "--allow-extra")
    assert code == 1
    assert out.startswith("NOTHING COMPARED: 2 missing, 2 extra; ")


@pytest.mark.parametrize("format_", ["json", "jsonl", "junit", "md", "text"])
def test_reports_go_to_a_file(firstdiff: Run, sample: tuple[Path, Path], tmp_path: Path, format_: str) -> None:
    code, out, _ = firstdiff("compare", *sample, "--format", format_, "-o", tmp_path / "report")
    assert (code, out) == (1, "")
    assert "layers.2.ln_1" in (tmp_path / "report").read_text(encoding="utf-8")
    assert [file.name for file in tmp_path.iterdir()] == ["report"]


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes are another matter there")
def test_a_report_for_a_pipe_is_written_into_it(firstdiff: Run, sample: tuple[Path, Path], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as threads:
        read = threads.submit(pipe.read_text, "utf-8")
        assert firstdiff("compare", *sample, "-o", pipe)[:2] == (1, "")
        assert read.result(timeout=20).startswith("MISMATCH: ")
    assert pipe.is_fifo()
    assert [file.name for file in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such devices")
@pytest.mark.parametrize("redirect", [">", ">>"])
def test_a_report_for_stdout_goes_where_stdout_goes(sample: tuple[Path, Path], tmp_path: Path, redirect: str) -> None:
    command = " ".join(shlex.quote(str(word)) for word in (*COMMAND, *sample, "-o", "/dev/stdout"))
    log = tmp_path / "log"
    subprocess.run(
        ["sh", "-c", f"{{ echo before; {command}; echo after; }} {redirect} {shlex.quote(str(log))}"], check=True
    )
    lines = log.read_text("utf-8").splitlines()
    assert (lines[0], lines[1][:10], lines[-1]) == ("before", "MISMATCH: ", "after")


def test_a_link_to_a_report_stays_a_link(firstdiff: Run, sample: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    firstdiff("compare", *sample, "-o", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text("utf-8").startswith("MISMATCH: ")


def test_json_on_stdout_is_json_alone(firstdiff: Run, sample: tuple[Path, Path]) -> None:
    assert json.loads(firstdiff("compare", *sample, "--format", "json")[1])["verdict"] == "mismatch"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["{a}", "nowhere"], "nowhere: does not exist"),
        (["{a}", "{b}", "--atol", "-1"], "atol is -1.0; it takes a number from 0 up"),
        (["{a}", "{b}", "--tolerances", "nowhere.toml"], "nowhere.toml: cannot be read"),
        (["{a}", "{b}", "--format", "pdf"], "--format is 'pdf'"),
        (["{a}", "{b}", "-o", "no/such/folder/x"], "cannot write no"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    firstdiff: Run, sample: tuple[Path, Path], words: list[str], says: str
) -> None:
    code, _, err = firstdiff("compare", *(word.format(a=sample[0], b=sample[1]) for word in words))
    assert code == 2
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colour_only_on_a_terminal_that_wants_it(sample: tuple[Path, Path], no_color: str, coloured: bool) -> None:
    main, other = pty.openpty()
    environment = {**os.environ, "NO_COLOR": no_color, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen([*COMMAND, *map(str, sample)], stdout=other, stderr=other, env=environment)
    os.close(other)
    seen = b""
    try:
        while piece := os.read(main, 1 << 16):
            seen += piece
    except OSError:
        pass  # a pseudo terminal ends with an error on Linux
    os.close(main)
    assert process.wait() == 1
    assert (b"\x1b[31m" in seen or b"\x1b[1;31m" in seen) == coloured
    plain = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]|\r", b"", seen).decode()
    table = [line for line in plain.splitlines() if line.startswith("  layer ")]
    assert table
    assert max(map(len, table)) <= 100


@pytest.mark.skipif(sys.platform == "win32", reason="signals are another matter there")
def test_ctrl_c_leaves_nothing_half_written(tmp_path: Path) -> None:
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
        for n in range(8):
            with (tmp_path / side / f"{n}.npy").open("wb") as file:
                np.lib.format.write_array_header_1_0(
                    file, {"descr": "<f4", "fortran_order": False, "shape": (1 << 28,)}
                )
                file.truncate(128 + (1 << 30))
    report = tmp_path / "out" / "report.json"
    report.parent.mkdir()
    sides = [str(tmp_path / side) for side in ("a", "b")]
    command = [*COMMAND, *sides, "--format", "json", "-o", str(report), "--engine", "numpy"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(1.5)
    assert process.poll() is None, "it must still be at work for the test to mean anything"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "firstdiff: stopped\n")
    assert list(report.parent.iterdir()) == []


def test_ctrl_c_prints_what_was_found_until_then(tmp_path: Path) -> None:
    for side, first in (("a", 0.0), ("b", 1.0)):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "0.npy", np.full(1000, first, np.float32))
        for n in range(1, 8):
            with (tmp_path / side / f"{n}.npy").open("wb") as file:
                header = {"descr": "<f4", "fortran_order": False, "shape": (1 << 28,)}
                np.lib.format.write_array_header_1_0(file, header)
                file.truncate(128 + (1 << 30))
    command = [*COMMAND, str(tmp_path / "a"), str(tmp_path / "b"), "--engine", "numpy"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(2.5)
    assert process.poll() is None, "it must still be at work for the test to mean anything"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (130, "firstdiff: stopped\n")
    assert "First divergence: 0" in out
    assert "incomplete" in out.lower()


def test_ctrl_c_that_a_library_swallows_still_stops_the_run() -> None:
    with suppress(KeyboardInterrupt):
        on_interrupt()
    with pytest.raises(KeyboardInterrupt):
        stop_if_interrupted(1, 2)
    stop_if_interrupted(2, 2)
