"""The file to hand on: what is in it, and that it stays small."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firstdiff.comparing import compare
from firstdiff.errors import UsageError
from firstdiff.server import offline_page
from firstdiff.server.offline_page import MOST_BYTES, by_worth, page_of


def data_in(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The embedded data, and the answers in it."""
    found = re.search(r'<script type="application/json" id="firstdiff-shared">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data, json.loads(gzip.decompress(base64.b64decode(data["answers"])))


def values_in(block: dict[str, Any], side: str) -> np.ndarray:
    raw = gzip.decompress(base64.b64decode(block["packed"]))
    for entry in block["sides"]:
        if entry["side"] == side:
            return np.frombuffer(raw[: entry["bytes"]], entry["dtype"]).reshape(block["shape"])
        raw = raw[entry["bytes"] :]
    raise AssertionError(f"no {side} in the block")


def write(folder: Path, **arrays: np.ndarray) -> Path:
    folder.mkdir()
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)
    return folder


def shared(tmp_path: Path, reference: dict[str, np.ndarray], candidate: dict[str, np.ndarray]) -> str:
    sides = write(tmp_path / "ref", **reference), write(tmp_path / "cand", **candidate)
    return page_of(compare(*sides), *sides)


def test_small_tensors_are_in_it_whole(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((4, 5), np.float32)
    wrong = values.copy()
    wrong[2, 3] = np.nan
    data, answers = data_in(shared(tmp_path, {"x": values}, {"x": wrong}))
    assert answers[""]["comparison"]["verdict"] == "mismatch"
    assert answers["/rows/0"]["pair"]["status"] == "mismatch"
    assert answers["/rows/0/inspect"]["aligned"]["shape"] == [4, 5]
    (block,) = data["blocks"]["0"]
    assert np.array_equal(values_in(block, "reference"), values)
    assert np.array_equal(values_in(block, "candidate"), wrong, equal_nan=True)


def test_of_large_tensors_the_places_worth_seeing(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((2, 1500, 1500), np.float32)
    wrong = values.copy()
    wrong[1, 900, 1200] += 1
    text = shared(tmp_path, {"x": values}, {"x": wrong})
    assert len(text.encode()) < MOST_BYTES
    worst, beginning = data_in(text)[0]["blocks"]["0"]
    assert beginning["begin"] == [0, 0, 0]
    plane, row, column = (place - begin for place, begin in zip((1, 900, 1200), worst["begin"], strict=True))
    assert values_in(worst, "candidate")[plane, row, column] == wrong[1, 900, 1200]


def test_many_rows_stay_below_the_limit(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    reference = {f"layers.{n}.mlp": random.standard_normal((64, 512), np.float32) for n in range(150)}
    candidate = {name: values + np.float32(0.5) for name, values in reference.items()}
    text = shared(tmp_path, reference, candidate)
    assert len(text.encode()) < MOST_BYTES
    data, answers = data_in(text)
    assert len(answers["/rows"]["rows"]) == 150
    assert {f"/rows/{row}" for row in range(150)} <= set(answers)
    assert data["blocks"]


def test_names_cannot_end_the_script(tmp_path: Path) -> None:
    folders = []
    for side in ("ref", "cand"):
        path = tmp_path / f"{side}.json"
        path.write_text(json.dumps({"</script><script>alert(1)</script>": [1.0, 2.0], "<!-- <script>": [1.0]}))
        folders.append(path)
    text = page_of(compare(*folders), *folders)
    assert text.count("</script>") == 2
    assert "alert(1)" not in text
    _, answers = data_in(text)
    assert "</script>" in answers["/rows"]["rows"][0]["key"]


def test_nothing_but_the_file_is_asked(tmp_path: Path) -> None:
    text = shared(tmp_path, {"x": np.ones(3)}, {"x": np.ones(3)})
    assert "default-src 'none'" in text
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", text)


def test_without_the_built_page_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline_page, "_ASSETS", tmp_path / "nowhere")
    with pytest.raises(UsageError, match="make web"):
        shared(tmp_path, {"x": np.ones(3)}, {"x": np.ones(3)})


def test_where_errors_begin_comes_first() -> None:
    rows = [
        {"index": 0, "status": "match", "ratio": 0.5, "origin": None},
        {"index": 1, "status": "mismatch", "ratio": 3.0, "origin": "inherited"},
        {"index": 2, "status": "mismatch", "ratio": "inf", "origin": "inherited"},
        {"index": 3, "status": "mismatch", "ratio": 2.0, "origin": "introduced"},
        {"index": 4, "status": "match", "ratio": 0.9, "origin": None},
    ]
    head = {"first_divergence": {"pair": 1}, "divergences": [{"pair": 1}]}
    assert by_worth(head, rows) == [1, 3, 2, 4, 0]
