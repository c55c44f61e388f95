from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from firstdiff.comparing import compare
from tests.server.conftest import Page


def test_other_tolerances_judge_at_once(page: Page, runs: tuple[Path, Path]) -> None:
    entry = page.compare(*runs)
    judged = page.post(f"/comparisons/{entry['id']}/judge", {"rule": "custom", "atol": 0.1})
    assert judged["verdict"] == "mismatch"
    assert [row["status"] for row in judged["rows"]] == ["match", "mismatch", "match"]
    assert judged["first_divergence"]["key"] == "01_mlp"
    assert judged["rows"][1]["tolerance"]["atol"] == 0.1
    assert abs(judged["rows"][1]["required"]["atol"] - 0.5) < 1e-6
    assert page.post(f"/comparisons/{entry['id']}/judge", {"rule": "custom", "atol": 0.6})["verdict"] == "match"


@pytest.mark.parametrize(
    "body", [{"rule": "default"}, {"rule": "default", "k": 1e6}, {"rule": "torch"}, {"rule": "custom", "rtol": 0.02}]
)
def test_saved_tolerances_say_the_same(page: Page, runs: tuple[Path, Path], tmp_path: Path, body: dict) -> None:
    entry = page.compare(*runs)
    judged = page.post(f"/comparisons/{entry['id']}/judge", body)
    saved = tmp_path / "tolerances.toml"
    saved.write_text(page.post(f"/comparisons/{entry['id']}/tolerances", body)["toml"], encoding="utf-8")
    again = compare(*runs, tolerances=saved)
    assert [pair.status for pair in again.pairs] == [row["status"] for row in judged["rows"]]


def test_a_file_of_tolerances_can_be_given_as_text(page: Page, runs: tuple[Path, Path]) -> None:
    entry = page.compare(*runs)
    toml = '[[tolerances]]\nname = "0[12].*"\natol = 1.0\n\n[[tolerances]]\nname = "nobody"\natol = 1.0\n'
    judged = page.post(f"/comparisons/{entry['id']}/judge", {"rule": "toml", "toml": toml})
    assert judged["verdict"] == "match"
    assert judged["warnings"] == ["tolerances, line 5: the tolerance for 'nobody' matches no tensor"]
    kept = page.post(f"/comparisons/{entry['id']}/tolerances", {"rule": "toml", "toml": toml})["toml"]
    assert tomllib.loads(kept) == tomllib.loads(toml)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"rule": "custom"}, "needs atol, rtol, or both"),
        ({"rule": "custom", "atol": -1.0}, "it takes a number from 0 up"),
        ({"rule": "default", "k": -1.0}, "k is -1.0"),
        ({"rule": "toml", "toml": "no"}, "is not valid TOML"),
        ({"rule": "toml"}, "has no [[tolerances]]"),
    ],
)
def test_tolerances_that_make_no_sense(page: Page, runs: tuple[Path, Path], body: dict, says: str) -> None:
    entry = page.compare(*runs)
    assert says in page.error("POST", f"/comparisons/{entry['id']}/judge", 400, json=body)
