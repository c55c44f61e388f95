from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

from firstdiff.cli.pair import pair
from firstdiff.errors import FirstdiffError
from tests.pairing.traces import random

APP = typer.Typer()
APP.command()(pair)


@pytest.fixture
def traces(tmp_path: Path) -> tuple[Path, Path]:
    values = random(["layers.0.self_attn.q_proj", "mel", "swapped", "also", "alone.thing.left"])
    theirs = {
        "blk.0.attn_q": values["layers.0.self_attn.q_proj"],
        "mel": values["mel"],
        "swapped": values["also"],
        "also": values["swapped"],
        "alone.thing.right": np.zeros(3),
    }
    for folder, arrays in (("ours", values), ("theirs", theirs)):
        (tmp_path / folder).mkdir()
        for name, array in arrays.items():
            np.save(tmp_path / folder / f"{name}.npy", array)
    return tmp_path / "ours", tmp_path / "theirs"


def run(*words: object) -> Result:
    return CliRunner().invoke(APP, [str(word) for word in words])


def test_the_table_tells_pairs_how_they_were_found_and_what_is_left(traces: tuple[Path, Path]) -> None:
    done = run(*traces)
    assert done.exit_code == 0, done.output
    lines = [line.split() for line in done.stdout.splitlines()]
    assert done.stdout.startswith("4 paired, 1 only in the reference, 1 only in the candidate\n")
    assert ["layers.0.self_attn.q_proj", "blk.0.attn_q", "normalised", "0.95"] in lines
    assert ["mel", "mel", "exact", "1.00"] in lines
    assert ["swapped", "swapped", "exact", "1.00", "also"] in lines
    assert "  alone.thing.left  (perhaps alone.thing.right: a similar name, 0.14)" in done.stdout.splitlines()
    assert "also and swapped seem to be swapped in the candidate; they were compared by name" in done.stderr


def test_json_tells_the_same(traces: tuple[Path, Path]) -> None:
    found = json.loads(run(*traces, "--format", "json").stdout)
    assert found["schema"] == "firstdiff/pairing/1"
    assert found["reference"] == {"path": str(traces[0]), "tensors": 5}
    assert {
        "reference": ["swapped"],
        "candidate": ["swapped"],
        "pairing": {"method": "exact", "confidence": 1.0, "alternatives": ["also"]},
        "recipe": None,
        "doubt": "the values of also fit far better",
    } in found["pairs"]
    assert [one["key"] for one in found["extra"]] == ["alone.thing.right"]


def test_a_written_map_is_taken_back(traces: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "map.toml"
    assert run(*traces, "--write-map", file).exit_code == 0
    assert len(tomllib.loads(file.read_text(encoding="utf-8"))["pair"]) == 4
    found = json.loads(run(*traces, "--map", file, "--format", "json").stdout)
    assert [one["pairing"]["method"] for one in found["pairs"]] == ["map"] * 4


def test_a_map_is_never_written_over(traces: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "map.toml"
    file.write_text("edited", encoding="utf-8")
    done = run(*traces, "--write-map", file)
    assert isinstance(done.exception, FirstdiffError)
    assert (
        str(done.exception) == f"{file} exists already; a map that was edited is not written over: choose another name"
    )
    assert file.read_text(encoding="utf-8") == "edited"


def test_a_map_that_cannot_be_written_is_said(traces: tuple[Path, Path], tmp_path: Path) -> None:
    done = run(*traces, "--write-map", tmp_path / "no folder" / "map.toml")
    assert isinstance(done.exception, FirstdiffError)
    assert "cannot write the map" in str(done.exception)


def test_a_layer_offset_is_taken(tmp_path: Path) -> None:
    for folder, layer in (("ours", 3), ("theirs", 0)):
        (tmp_path / folder).mkdir()
        for part in ("query", "key"):
            np.save(tmp_path / folder / f"{layer}_{part}.npy", np.zeros(3))
    words = (tmp_path / "ours", tmp_path / "theirs", "--layer-offset", 3)
    assert "3_query" in run(*words).stdout
    assert run(*words).stdout.startswith("2 paired, 0 only")


def test_nothing_paired_is_exit_code_1(tmp_path: Path) -> None:
    for folder, names in (("ours", "ab"), ("theirs", "xy")):
        (tmp_path / folder).mkdir()
        for name in names:
            np.save(tmp_path / folder / f"{name}.npy", np.zeros(3))
    assert run(tmp_path / "ours", tmp_path / "theirs").exit_code == 1


def test_names_cannot_draw_on_the_screen(tmp_path: Path) -> None:
    np.savez(tmp_path / "ours.npz", **{"a\x1b[31m": np.zeros(3), "b": np.zeros(3)})
    done = run(tmp_path / "ours.npz", tmp_path / "ours.npz")
    assert "\x1b" not in done.stdout
    assert "a\\x1b[31m" in done.stdout
