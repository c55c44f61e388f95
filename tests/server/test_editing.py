from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firstdiff.comparing import compare
from tests.server.conftest import Page, write_folder

NONE: dict[str, Any] = {"pairs": [], "dropped": [], "layouts": [], "layer_offset": None}


@pytest.fixture
def strangers(tmp_path: Path) -> tuple[Path, Path]:
    """Two runs in which `a` and `b` have changed places."""
    rng = np.random.default_rng(1)
    one, other = rng.standard_normal((2, 6, 4)).astype("f4")
    return write_folder(tmp_path / "r", a=one, b=other), write_folder(tmp_path / "c", a=other, b=one)


def edited(page: Page, comparison: str, **changes: Any) -> list[dict[str, Any]]:
    answer = page.client.put(f"/api/comparisons/{comparison}/edits", json={**NONE, **changes})
    assert answer.status_code == 200, answer.text
    assert page.finished(comparison)["error"] is None
    rows: list[dict[str, Any]] = page.get(f"/comparisons/{comparison}/rows")["rows"]
    return rows


def test_pairs_set_by_hand_run_again_and_stay(page: Page, strangers: tuple[Path, Path], tmp_path: Path) -> None:
    entry = page.compare(*strangers)
    assert entry["verdict"] == "mismatch"
    pairs = [{"reference": "a", "candidate": "b"}, {"reference": "b", "candidate": "a"}]
    rows = edited(page, entry["id"], pairs=pairs)
    assert [(row["key"], row["candidate_name"], row["status"]) for row in rows] == [
        ("a", "b", "match"),
        ("b", "a", "match"),
    ]
    assert page.get(f"/comparisons/{entry['id']}/edits") == {**NONE, "pairs": pairs}
    saved = tmp_path / "map.toml"
    saved.write_bytes(page.client.get(f"/api/comparisons/{entry['id']}/map.toml").content)
    assert compare(*strangers, map=saved).verdict == "match"


def test_a_dropped_pair_leaves_both_without_a_partner(page: Page, strangers: tuple[Path, Path]) -> None:
    entry = page.compare(*strangers)
    rows = edited(page, entry["id"], dropped=[{"reference": "a", "candidate": "a"}])
    assert [(row["key"], row["status"]) for row in rows] == [("a", "missing"), ("b", "mismatch"), ("a", "extra")]


def test_a_layout_can_be_accepted(page: Page, tmp_path: Path) -> None:
    values = np.random.default_rng(2).standard_normal((5, 5)).astype("f4")
    entry = page.compare(write_folder(tmp_path / "r", x=values), write_folder(tmp_path / "c", x=values.T))
    row = page.get(f"/comparisons/{entry['id']}/rows")["rows"][0]
    assert (row["status"], row["cause"]) == ("mismatch", "layout.transpose")
    rows = edited(page, entry["id"], layouts=[{"key": "x", "recipe": row["recipe"]}])
    assert rows[0]["status"] == "match"


def test_layers_can_be_shifted(page: Page, tmp_path: Path) -> None:
    layers = np.random.default_rng(3).standard_normal((3, 2, 16)).astype("f4")
    stages = [(number, stage) for number in range(3) for stage in range(2)]
    names = ("query", "key")
    reference = write_folder(tmp_path / "r", **{f"{n}_{names[s]}": layers[n, s] for n, s in stages})
    candidate = write_folder(tmp_path / "c", **{f"{n - 1}_{names[s]}": layers[n, s] for n, s in stages if n})
    entry = page.compare(reference, candidate)
    assert entry["summary"]["match"] == 0
    rows = edited(page, entry["id"], layer_offset=1)
    matched = {row["key"]: row["candidate_name"] for row in rows if row["status"] == "match"}
    assert matched == {"1_query": "0_query", "1_key": "0_key", "2_query": "1_query", "2_key": "1_key"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"pairs": [{"reference": "a", "candidate": x} for x in "ab"]}, "the reference 'a' is in two pairs"),
        ({"pairs": [{"reference": x, "candidate": "a"} for x in "ab"]}, "the candidate 'a' is in two pairs"),
        ({"layouts": [{"key": "a", "recipe": "no such step"}]}, "the recipe for a: "),
    ],
)
def test_edits_that_cannot_be(page: Page, strangers: tuple[Path, Path], changes: dict[str, Any], says: str) -> None:
    entry = page.compare(*strangers)
    assert says in page.error("PUT", f"/comparisons/{entry['id']}/edits", 400, json={**NONE, **changes})
    assert page.get(f"/comparisons/{entry['id']}/edits") == NONE


def test_edits_that_name_nothing_fail_with_a_sentence_and_keep_the_result(
    page: Page, strangers: tuple[Path, Path]
) -> None:
    entry = page.compare(*strangers)
    edits = {**NONE, "pairs": [{"reference": "aa", "candidate": "b"}]}
    page.client.put(f"/api/comparisons/{entry['id']}/edits", json=edits)
    failed = page.finished(entry["id"])
    assert failed["state"] == "failed"
    assert "has no tensor 'aa'" in failed["error"]
    assert len(page.get(f"/comparisons/{entry['id']}/rows")["rows"]) == 2


def test_the_map_of_one_trace_alone(page: Page, strangers: tuple[Path, Path]) -> None:
    entry = page.compare(strangers[0], kind="look")
    assert "nothing to pair" in page.error("GET", f"/comparisons/{entry['id']}/map.toml", 400)
