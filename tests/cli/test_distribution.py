"""`firstdiff compare --as distribution`: samples of generators that are not shared."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    for name, seed in (("a", 0), ("b", 1)):
        draws = np.random.default_rng(seed)
        np.savez(tmp_path / f"{name}.npz", ids=draws.integers(0, 65, (32, 64)), noise=draws.normal(size=2000))
    return tmp_path / "a.npz", tmp_path / "b.npz"


def test_prints_each_test_with_its_level(firstdiff: Run, files: tuple[Path, Path]) -> None:
    code, out, err = firstdiff("compare", *files, "--as", "distribution")
    assert (code, err) == (0, "")
    assert "ok  ids, 2,048 and 2,048 samples" in out
    assert all(name in out for name in ("total variation", "chi-square", "Kolmogorov-Smirnov"))
    assert out.splitlines()[-1] == "MATCH: 2 pairs of samples may be of one distribution"


def test_json_has_the_same_in_a_file(firstdiff: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    code, _, _ = firstdiff("compare", *files, "--as", "distribution", "--format", "json", "-o", tmp_path / "r.json")
    report = json.loads((tmp_path / "r.json").read_text())
    assert (code, report["schema"], report["verdict"]) == (0, "firstdiff/distribution/1", "match")
    names = [test["name"] for test in report["rows"][0]["tests"]]
    assert names == ["total_variation", "chi_square", "kolmogorov_smirnov"]


@pytest.mark.parametrize(
    ("words", "text"),
    [(["--atol", "1e-3"], "--atol has no meaning"), (["--format", "junit"], "text or json, not junit")],
)
def test_options_that_make_no_sense_are_refused(
    firstdiff: Run, files: tuple[Path, Path], words: list[str], text: str
) -> None:
    code, _, err = firstdiff("compare", *files, "--as", "distribution", *words)
    assert code == 2
    assert text in err


def test_nothing_in_common_is_no_match(firstdiff: Run, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", ids=np.zeros(500, np.int64))
    np.savez(tmp_path / "b.npz", noise=np.zeros((3, 100), np.float32))
    code, out, _ = firstdiff("compare", tmp_path / "a.npz", tmp_path / "b.npz", "--as", "distribution")
    assert code == 1
    assert "NOT COMPARED" in out
