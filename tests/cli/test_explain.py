from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    values = np.random.default_rng(0).standard_normal((4, 16, 8)).astype(np.float32)
    np.savez(tmp_path / "a.npz", q=values, k=values + 1, gone=values[:2])
    np.savez(tmp_path / "b.npz", q=values.transpose(1, 0, 2)[None], k=values + 1.5)
    return tmp_path / "a.npz", tmp_path / "b.npz"


def test_pair_layout_and_verdict_are_told(firstdiff: Run, sides: tuple[Path, Path]) -> None:
    code, out, _ = firstdiff("explain", *sides, "q")
    assert code == 0
    assert out.splitlines()[0] == "q: match, [4, 16, 8] float32 against [1, 16, 4, 8] float32"
    assert "  found by exact, confidence 1" in out
    assert "  steps: squeeze, permute" in out


def test_a_mismatch_says_what_would_have_passed(firstdiff: Run, sides: tuple[Path, Path]) -> None:
    out = firstdiff("explain", *sides, "k")[1]
    assert "  Would match with atol 0.5 or rtol" in out


def test_a_tensor_without_a_partner(firstdiff: Run, sides: tuple[Path, Path]) -> None:
    out = firstdiff("explain", *sides, "gone")[1]
    assert out.startswith("gone: missing")
    assert "only the reference has it" in out


def test_json_is_the_row(firstdiff: Run, sides: tuple[Path, Path]) -> None:
    found = json.loads(firstdiff("explain", *sides, "q", "--format", "json")[1])
    assert (found["key"], found["status"]) == ("q", "match")


def test_an_unknown_name(firstdiff: Run, sides: tuple[Path, Path]) -> None:
    code, _, err = firstdiff("explain", *sides, "goen")
    assert code == 2
    assert "neither side has a tensor 'goen' (did you mean gone?)" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--align", "q"], "--align 'q' has no name"),
        (["--align", "q=b s h -> b s h"], "the recipe stated for q does not fit"),
        (["--align", "q=a a ->"], "--align 'q=a a ->': 'a' stands twice"),
        (["--map", "nowhere.toml"], "cannot read the map nowhere.toml"),
    ],
)
def test_what_does_not_fit_is_said(firstdiff: Run, sides: tuple[Path, Path], words: list[str], says: str) -> None:
    code, _, err = firstdiff("compare", *sides, *words)
    assert code == 2
    assert err.count("\n") == 1
    assert says in err


def test_a_stated_recipe_is_used_and_an_unused_one_warned_of(firstdiff: Run, sides: tuple[Path, Path]) -> None:
    code, out, _ = firstdiff("compare", *sides, "--align", "q=1 a b c -> b a c", "--align", "nobody=a b -> b a")
    assert code == 1
    assert "warning: --align names 'nobody', which no pair is" in out
    assert "q       match" in out
