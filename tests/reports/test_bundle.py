"""`firstdiff report --bundle` packs what a maintainer asks for, and no secrets."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import firstdiff as fd
from firstdiff.cli.main import main

pytest.importorskip("onnxruntime")

from tests.capturing.onnx_models import mlp, saved

SECRET = "s3cret-value-of-the-machine"


def bundle(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    monkeypatch.setattr(sys, "argv", ["firstdiff", "report", *map(str, words)])
    try:
        main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two traces of a graph with another eps; in a third the runtime got one value wrong."""
    folder = tmp_path_factory.mktemp("runs")
    x = np.random.default_rng(1).standard_normal((3, 16)).astype(np.float32) * 0.3
    for name, eps in (("good", 1e-5), ("eps", 0.1), ("kernel", 1e-5)):
        fd.capture_onnx(saved(mlp(eps=eps), folder, f"{name}.onnx"), {"x": x}, folder / f"{name}.trace")
    lines = [json.loads(line) for line in (folder / "kernel.trace" / "tensors.jsonl").read_text().splitlines()]
    file = next(line["file"] for line in lines if line["name"] == "hidden")
    wrong = np.load(folder / "kernel.trace" / file)
    wrong[:, ::3] *= 1.5
    np.save(folder / "kernel.trace" / file, wrong)
    return folder


def packed(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_comparison_summaries_versions_and_logs_are_packed_without_the_environment(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUB_TOKEN", SECRET)
    log = tmp_path / "debug.log"
    log.write_text(f"asked with {SECRET}\nloaded 3 files\n")
    assert (
        bundle(monkeypatch, runs / "good.trace", runs / "eps.trace", "--bundle", tmp_path / "b.zip", "--log", log) == 0
    )
    files = packed(tmp_path / "b.zip")
    assert not any(SECRET.encode() in data for data in files.values())
    assert files["logs/debug.log"] == b"asked with <HUB_TOKEN>\nloaded 3 files\n"
    assert json.loads(files["comparison.json"])["first_divergence"]["key"] == "kept_apart"
    assert json.loads(files["versions.json"])["packages"]["numpy"] == np.__version__
    tensors: list[dict[str, Any]] = json.loads(files["candidate.json"])["tensors"]
    assert next(item for item in tensors if item["name"] == "hidden")["statistics"]["std"] > 0


@pytest.mark.parametrize(
    ("run", "key", "said"),
    [("eps", "kept_apart", "so the graph or its weights differ"), ("kernel", "hidden", "computes this node otherwise")],
)
def test_the_node_runs_by_itself_and_tells_graph_from_kernel(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str, key: str, said: str
) -> None:
    bundle(monkeypatch, runs / "good.trace", runs / f"{run}.trace", "--bundle", tmp_path / "b.zip")
    files = packed(tmp_path / "b.zip")
    assert said in files["README.md"].decode()
    assert f"{key} (" in files["README.md"].decode()
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        archive.extractall(tmp_path / "out")
    done = subprocess.run(
        [sys.executable, "run.py"], cwd=tmp_path / "out" / "node", capture_output=True, text=True, check=True
    )
    told = dict(line.split(": greatest difference ") for line in done.stdout.splitlines())
    assert float(told["alone"]) == 0
    assert (float(told["candidate"]) == 0) == (run == "eps")
    assert (
        float(told["reference"]) == pytest.approx(0.09999, rel=1e-3) if run == "eps" else float(told["reference"]) == 0
    )
    expected = np.load(io.BytesIO(files["node/expected.npz"]))
    assert set(expected) == {"alone", "candidate", "reference"}


def test_plain_arrays_say_why_there_is_no_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(9.0))
    np.savez(tmp_path / "b.npz", x=np.arange(9.0) + 1)
    assert bundle(monkeypatch, tmp_path / "a.npz", tmp_path / "b.npz", "--bundle", tmp_path / "b.zip") == 0
    files = packed(tmp_path / "b.zip")
    assert "x was not recorded as a node of an ONNX graph" in files["README.md"].decode()
    assert not any(name.startswith("node/") for name in files)


@pytest.mark.parametrize(
    ("words", "text"),
    [(["--log", "no.log"], "there is no log no.log"), (["--bundle", "."], "is a folder")],
)
def test_bad_input_is_one_sentence(
    words: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(9.0))
    monkeypatch.chdir(tmp_path)
    assert bundle(monkeypatch, "a.npz", "a.npz", "--bundle", "b.zip", *words) == 2
    assert text in capsys.readouterr().err
