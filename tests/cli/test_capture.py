from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import typer
from typer.testing import CliRunner

from firstdiff.cli.calibrate import calibrate
from firstdiff.cli.capture import app
from firstdiff.readers import open_trace
from tests.capturing.onnx_models import mlp, rows

MODELS = """
import torch
def tiny():
    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(0.5))
def compiled():
    return torch.compile(tiny(), backend="eager")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "models_of_mine.py").write_text(MODELS)
    np.savez(tmp_path / "x.npz", input=np.ones((4, 3), np.float32))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("models_of_mine", None)


def run(*words: object) -> str:
    result = CliRunner().invoke(app, ["torch", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_model_is_built_called_and_recorded(folder: Path) -> None:
    said = run("models_of_mine:tiny", "--input", "x.npz", "-o", "t.trace", "--seed", "1")
    assert said == "t.trace: 8 tensors\n"
    trace = open_trace("t.trace")
    assert [str(tensor.key) for tensor in trace if tensor.record.role == "output"] == ["0", "1", "root"]
    assert trace.header["seed"] == 1
    assert trace["1"].record.attrs["training"] is False


def test_options_reach_the_capture(folder: Path) -> None:
    run(
        *("models_of_mine:tiny", "--input", "x.npz", "-o", "t.trace", "--level", "module", "--params", "none"),
        *("--include", "0*", "--exclude", "*b", "--dtype", "float16", "--max-bytes", "1000", "--floor", "--train"),
    )
    trace = open_trace("t.trace")
    assert {tensor.name for tensor in trace} == {"0"}
    assert trace["0"].values().dtype == "float16"
    assert trace["0"].record.attrs["training"] is True
    assert trace["0"].record.floor is not None
    run("models_of_mine:tiny", "--input", "x.npz", "-o", "t.trace", "--overwrite", "--tokens", "0:1")


def test_the_same_seed_gives_the_same_trace(folder: Path) -> None:
    for name in ("a", "b"):
        run("models_of_mine:tiny", "--input", "x.npz", "-o", name, "--seed", "5")
    one, two = (open_trace(name)["root"].values().read() for name in ("a", "b"))
    np.testing.assert_array_equal(one, two)


def test_runs_are_calibrated_from_the_command_line(folder: Path) -> None:
    for name in ("a", "b"):
        run("models_of_mine:tiny", "--input", "x.npz", "-o", name, "--seed", "5")
    alone = typer.Typer()
    alone.command()(calibrate)
    result = CliRunner().invoke(alone, ["a", "b", "-o", "a"], catch_exceptions=False)
    assert result.output == "a: 6 of 8 tensors have a noise floor, from 2 runs\n"
    assert open_trace("a")["root"].record.floor is not None


def test_help_does_not_import_torch() -> None:
    code = "import sys; from firstdiff.cli import calibrate, capture; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_onnx_model_is_recorded(folder: Path) -> None:
    onnx.save_model(mlp(), folder / "model.onnx")
    np.savez(folder / "x.npz", x=rows())
    result = CliRunner().invoke(app, ["onnx", "model.onnx", "--input", "x.npz", "-o", "run.trace", "--params", "none"])
    assert result.exit_code == 0, result.output
    first, distance = result.output.splitlines()
    assert first == "run.trace: 12 tensors"
    assert distance.startswith("y: ")
    assert distance.endswith(" standard deviations from the plain optimised run")
