from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.diagnose.pairs import randn, traced

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    """A layer norm with another eps, and a layer behind it."""
    for name, eps in (("a", 1e-5), ("b", 1e-2)):
        torch.manual_seed(0)
        model = nn.Sequential(nn.LayerNorm(16, eps=eps), nn.Linear(16, 16)).eval()
        traced(model, [0.1 * randn(4, 16)], tmp_path / name)
    return tmp_path / "a", tmp_path / "b"


def test_cause_evidence_and_fix_are_told(firstdiff: Run, sides: tuple[Path, Path]) -> None:
    code, out, _ = firstdiff("diagnose", *sides)
    assert code == 1
    lines = out.splitlines()
    assert lines[0] == "0: mismatch, LayerNorm, [4, 16] float32, introduced"
    assert lines[1].startswith("  Cause: norm.eps (confidence 0.9")
    assert "with eps 0.01 instead of 1e-05 the greatest difference falls from" in lines[1]
    assert lines[2] == "  Fix: set eps of 0 to 1e-05"
    assert lines[-1].startswith("MISMATCH")


def test_one_row_can_be_asked_for_by_the_key_of_either_side(firstdiff: Run, sides: tuple[Path, Path]) -> None:
    code, out, _ = firstdiff("diagnose", *sides, "1")
    assert code == 1
    assert out.splitlines()[0] == "1: mismatch, Linear, [4, 16] float32, inherited"
    assert "1 is what its own inputs give: the error came in with them" in out


def test_json_has_rows_with_their_causes(firstdiff: Run, sides: tuple[Path, Path]) -> None:
    code, out, _ = firstdiff("diagnose", *sides, "--format", "json")
    assert code == 1
    said = json.loads(out)
    assert said["schema"] == "firstdiff/diagnosis/1"
    assert said["verdict"] == "mismatch"
    [row] = said["rows"]
    assert (row["key"], row["origin"], row["diagnosis"][0]["cause"]) == ("0", "introduced", "norm.eps")
    assert row["diagnosis"][0]["residual"] < 1e-5


def test_runs_that_match_have_no_cause(firstdiff: Run, sides: tuple[Path, Path]) -> None:
    code, out, _ = firstdiff("diagnose", sides[0], sides[0])
    assert code == 0
    assert out.startswith("MATCH")
    code, out, _ = firstdiff("diagnose", sides[0], sides[0], "1")
    assert code == 0
    assert "there is nothing to explain" in out


def test_what_only_one_side_has_says_so(firstdiff: Run, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones(3), gone=np.ones(3))
    np.savez(tmp_path / "b.npz", x=np.ones(3))
    code, out, _ = firstdiff("diagnose", tmp_path / "a.npz", tmp_path / "b.npz", "gone")
    assert code == 1
    assert out.splitlines()[1] == "  only the reference has it"


def test_unknown_is_said_with_what_to_record(firstdiff: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((6, 50))
    np.savez(tmp_path / "a.npz", x=values)
    np.savez(tmp_path / "b.npz", x=values + 0.3 * np.sin(40 * values) * values**2)
    code, out, _ = firstdiff("diagnose", tmp_path / "a.npz", tmp_path / "b.npz")
    assert code == 1
    assert "\n  Cause: unknown: No cause that was tested explains x; to know more, record op, attrs" in out


def test_a_name_that_is_not_there_is_one_sentence(firstdiff: Run, sides: tuple[Path, Path]) -> None:
    code, _, err = firstdiff("diagnose", *sides, "2")
    assert code == 2
    assert err.startswith("firstdiff: neither side has a tensor '2'")
    code, _, err = firstdiff("diagnose", sides[0], sides[0].parent / "none")
    assert code == 2
    assert err.count("\n") == 1


def test_compare_begins_with_cause_evidence_and_fix(firstdiff: Run, sides: tuple[Path, Path]) -> None:
    _, out, _ = firstdiff("compare", *sides)
    lines = [line.strip() for line in out.splitlines()]
    assert lines[0].startswith("MISMATCH")
    fix = lines.index("Fix: set eps of 0 to 1e-05")
    assert fix < 10
    assert lines[fix - 1].startswith("Cause: norm.eps (confidence 0.9")


@pytest.mark.parametrize("form", ["md", "junit", "json", "jsonl"])
def test_every_form_of_report_tells_the_cause(firstdiff: Run, sides: tuple[Path, Path], form: str) -> None:
    _, out, _ = firstdiff("compare", *sides, "--format", form)
    assert "norm.eps" in out
    assert "with eps 0.01 instead of 1e-05 the greatest difference falls from" in out
    assert "set eps of 0 to 1e-05" in out
