"""The recorder in C that ends the page of the trace format."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import firstdiff as fd
from tests.clients.c_recorder import blocks, recorder_program, write_table
from tests.clients.cpp import c_program

SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
TAPS = """
int main(int count, char **folders) {
    Trace trace;
    float values[4] = {1, 2, 3, 4};
    (void)count;
    if (!trace_open(&trace, folders[1])) return 2;
    int first = trace_tap(&trace, "first", "float32", "<f4", values, sizeof values, 2, (const long[]){2, 2}, NULL);
    int misfit = trace_tap(&trace, "misfit", "float32", "<f4", values, sizeof values, 1, (const long[]){3}, NULL);
    int second = trace_tap(&trace, "../second", "float32", "<f4", values, sizeof values, 0, NULL, NULL) |
                 trace_tap(&trace, "../second", "float32", "<f4", values, 4, 0, NULL, NULL);
    printf("%d %d %d %d\\n", first, misfit, second, trace_close(&trace));
    return 0;
}
"""


def program(folder: Path, *parts: str) -> Path:
    source = folder / "program.c"
    source.write_text("\n".join(parts), encoding="utf-8")
    return c_program(source, *SANITIZERS)


def run(program: Path, *arguments: str | Path, **settings: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FIRSTDIFF_")}
    return subprocess.run([program, *arguments], env=clean | settings, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def taps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return program(tmp_path_factory.mktemp("taps"), blocks()[0], TAPS)


def test_it_is_about_fifty_lines() -> None:
    lines = [line for line in blocks()[0].splitlines() if line.strip(" }") and not line.startswith("#include")]
    assert len(lines) <= 52


def test_the_pages_program_records_where_the_environment_says(tmp_path: Path) -> None:
    example = program(tmp_path, *blocks())
    assert run(example).returncode == 0
    done = run(example, FIRSTDIFF_TRACE=str(tmp_path / "a.trace"))
    assert done.returncode == 0, done.stderr
    assert [str(tensor.key) for tensor in fd.open_trace(tmp_path / "a.trace")] == ["mel", "hidden#s3"]
    assert run(example, FIRSTDIFF_TRACE=str(tmp_path / "b.trace"), FIRSTDIFF_ONLY="x*, m[a-f]l").returncode == 0
    assert [tensor.name for tensor in fd.open_trace(tmp_path / "b.trace")] == ["mel"]
    assert run(example, FIRSTDIFF_TRACE=str(tmp_path / "a.trace")).returncode == 1  # which holds a trace already
    assert run(example, FIRSTDIFF_TRACE=str(tmp_path / "program.c" / "t")).returncode == 1


def test_a_shape_that_does_not_fit_is_refused_and_names_are_no_paths(taps: Path, tmp_path: Path) -> None:
    done = run(taps, tmp_path / "t")
    assert done.stdout == "1 0 1 1\n", done.stderr
    trace = fd.open_trace(tmp_path / "t")
    assert [tensor.name for tensor in trace] == ["first", "../second"]
    np.testing.assert_array_equal(next(iter(trace)).values().read(), [[1, 2], [3, 4]])
    assert sorted(file.name for file in (tmp_path / "t").iterdir()) == [
        "000000.npy",
        "000001.npy",
        "tensors.jsonl",
        "trace.json",
    ]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize(("torn", "kept"), [("000001.npy", ["first"]), ("tensors.jsonl", [])])
def test_a_full_disk_leaves_what_was_whole(taps: Path, tmp_path: Path, torn: str, kept: list[str]) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / torn).symlink_to("/dev/full")
    done = run(taps, tmp_path / "t")
    assert done.stdout == f"{len(kept)} 0 0 0\n", done.stderr
    assert json.loads((tmp_path / "t" / "trace.json").read_text())["complete"] is False
    if kept:
        assert [tensor.name for tensor in fd.open_trace(tmp_path / "t")] == kept
        assert not (tmp_path / "t" / torn).exists()


def test_the_conformance_set_is_clean_under_the_sanitizers(tmp_path: Path) -> None:
    table = write_table(tmp_path / "tensors.tsv")
    done = run(recorder_program(tmp_path, *SANITIZERS), "write", table, tmp_path / "written")
    assert done.returncode == 0, done.stderr
