from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from firstdiff.trace import Record, TraceWriter

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    folder = tmp_path / "dump"
    folder.mkdir()
    np.save(folder / "01_tokens.npy", np.array([[3, 1, 4]]))
    values = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4)
    values[0, 0, 0], values[1, 2, 3] = np.nan, np.inf
    np.save(folder / "02_mel.npy", values)
    (folder / "03_bad.npy").write_bytes(b"nonsense")
    return folder


def test_the_table_has_names_shapes_types_and_statistics(firstdiff: Run, dump: Path) -> None:
    code, out, err = firstdiff("inspect", dump)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == f"{dump}: 3 tensors, 120 B, order: numbered"
    rows = [line.split() for line in out.splitlines()[2:]]
    assert rows[0] == ["01_tokens", "[1,", "3]", "int64", "2.66667", "1.24722", "1", "4", "0", "0"]
    assert rows[1][:5] == ["02_mel", "[2,", "3,", "4]", "float32"]
    assert rows[1][-2:] == ["1", "1"]
    assert rows[2] == ["03_bad", "failed"]
    assert out.endswith("1 tensor failed:\n  03_bad: does not start as a .npy file does\n")


def test_listing_reads_no_values(firstdiff: Run, dump: Path) -> None:
    code, out, _ = firstdiff("inspect", dump, "--no-statistics")
    assert code == 0
    assert out.splitlines()[2].split() == ["01_tokens", "[1,", "3]", "int64"]


def test_json_is_valid_whatever_the_numbers(firstdiff: Run, dump: Path) -> None:
    code, out, _ = firstdiff("inspect", dump, "--format", "json")
    found = json.loads(out, parse_constant=pytest.fail)
    assert (code, found["schema"], found["order"]) == (0, "firstdiff/inspect/1", "numbered")
    tokens, mel, bad = found["tensors"]
    assert (tokens["key"], tokens["shape"], tokens["dtype"]) == ("01_tokens", [1, 3], "int64")
    assert tokens["statistics"] == {
        "mean": 8 / 3,
        "std": pytest.approx(1.2472191),
        "min": 1,
        "max": 4,
        "nan": 0,
        "inf": 0,
    }
    assert (mel["statistics"]["nan"], mel["statistics"]["inf"]) == (1, 1)
    assert (bad["error"], bad["statistics"]) == ("does not start as a .npy file does", None)


def test_one_tensor(firstdiff: Run, dump: Path) -> None:
    code, out, _ = firstdiff("inspect", dump, "02_mel")
    assert code == 0
    assert out.startswith("02_mel  [2, 3, 4]  float32\n")
    assert "nan: 1" in out
    assert "first values: [" in out


def test_a_slice(firstdiff: Run, dump: Path) -> None:
    code, out, _ = firstdiff("inspect", dump, "01_tokens", "--slice", "0,1:")
    assert code == 0
    assert out.endswith("[0,1:]  [2]\n[1 4]\n")
    found = json.loads(firstdiff("inspect", dump, "02_mel", "--slice", "0,0,:2", "--format", "json")[1])
    assert found["tensors"][0]["slice"] == {
        "index": "0,0,:2",
        "shape": [2],
        "values": ["nan", pytest.approx(-0.9130435)],
    }


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere"], "nowhere: does not exist"),
        (["{dump}", "02_mle"], "has no tensor '02_mle' (did you mean 02_mel?)"),
        (["{dump}", "03_bad"], "03_bad: does not start as a .npy file does"),
        (["{dump}", "02_mel", "--slice", "5"], "asks for index 5 of dimension 0, which has 2"),
        (["{dump}", "--slice", "5"], "--slice needs the name of a tensor"),
        (["{dump}", "--order", "random"], "--order is 'random'; it takes one of numbered, layer_stage, natural"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(firstdiff: Run, dump: Path, words: list[str], says: str) -> None:
    code, out, err = firstdiff("inspect", *(word.format(dump=dump) for word in words))
    assert (code, out) == (2, "")
    assert err.startswith("firstdiff: ")
    assert says in err
    assert err.count("\n") == 1


def test_hostile_names_cannot_draw_on_the_screen(firstdiff: Run, tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "a.trace") as trace:
        trace.write(Record(name="\x1b[31mred\n[bold]x"), np.zeros(2))
    out = firstdiff("inspect", tmp_path / "a.trace")[1]
    assert "\\x1b[31mred\\n[bold]x" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(0, np.float32),
        np.array(4096),
        np.array(True),
        np.array([1 + 2j]),
        np.ones((2, 2), ml_dtypes.bfloat16),
        np.ones((2, 2), ml_dtypes.float8_e4m3fn),
        np.array([2**63 - 1, -(2**63)]),
        np.full(3, np.nan),
    ],
    ids=["empty", "0-d", "bool", "complex", "bf16", "fp8", "int64", "all nan"],
)
@pytest.mark.parametrize("format_", ["text", "json"])
def test_every_kind_of_tensor_is_shown(firstdiff: Run, tmp_path: Path, array: np.ndarray, format_: str) -> None:
    with TraceWriter(tmp_path / "a.trace") as trace:
        trace.write(Record(name="x"), array)
    for words in (["x"], ["x", "--slice", "..."], []):
        code, out, err = firstdiff("inspect", tmp_path / "a.trace", *words, "--format", format_)
        assert (code, err) == (0, "")
        assert array.dtype.name in out


def test_warnings_go_to_stderr(firstdiff: Run, dump: Path) -> None:
    (dump / "README.txt").write_text("x")
    _, out, err = firstdiff("inspect", dump)
    assert err == "warning: left out, since no reader knows them: README.txt\n"
    assert "README" not in out


def test_a_reader_that_leaves_is_no_error(dump: Path) -> None:
    command = f"{sys.executable} -c 'from firstdiff.cli.main import main; main()' inspect {dump} | head -n 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""
