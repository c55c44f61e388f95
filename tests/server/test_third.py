from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.server.conftest import Page, write_folder
from tests.server.test_inspecting import raw
from tests.server.test_uploading import npy

RNG = np.random.default_rng(0)
OURS = RNG.standard_normal((4, 6)).astype(np.float32)
THIRD = OURS * np.float32(1.5)


def compared(page: Page, tmp_path: Path, **third: Any) -> str:
    """The id of a comparison of x [4, 6] and y, in the candidate transposed, with a third trace."""
    sides = {
        "reference": write_folder(tmp_path / "r", x=OURS, y=np.arange(3.0)),
        "candidate": write_folder(tmp_path / "c", x=OURS.T, y=np.arange(3.0)),
        "third": write_folder(tmp_path / "t", **third),
    }
    entry = page.compare(sides["reference"], sides["candidate"], third={"path": str(sides["third"])})
    assert (entry["state"], entry["error"]) == ("done", None)
    assert entry["third"]["tensors"] == len(third)
    return str(entry["id"])


def row(page: Page, comparison: str, name: str) -> str:
    rows = page.get(f"/comparisons/{comparison}/rows")["rows"]
    return f"/comparisons/{comparison}/rows/{next(line['index'] for line in rows if line['name'] == name)}"


def test_the_third_is_seen_in_the_layout_of_the_other_two(page: Page, tmp_path: Path) -> None:
    x = row(page, compared(page, tmp_path, x=THIRD, y=np.arange(3.0)), "x")
    assert page.get(x)["third"] == "x"
    layout = page.get(f"{x}/inspect")
    assert layout["candidate"]["shape"] == [6, 4]
    assert layout["third"] == {"shape": layout["aligned"]["shape"], "dtype": "float32"}
    assert layout["third_original"] == {"shape": [4, 6], "dtype": "float32"}
    ours = raw(page, f"{x}/slice", side="reference", at=":,:")
    assert np.array_equal(raw(page, f"{x}/slice", side="third", at=":,:"), ours * np.float32(1.5))
    assert np.array_equal(raw(page, f"{x}/slice", side="third", space="original", at="1:3,:"), THIRD[1:3])
    cells = raw(page, f"{x}/overview", side="third", at=":,:", rows=2, columns=2)
    whole = raw(page, f"{x}/slice", side="third", at=":,:")
    height, width = whole.shape[0] // 2, whole.shape[1] // 2
    blocks = whole.reshape(2, height, 2, width).swapaxes(1, 2).reshape(2, 2, -1)
    worst = np.take_along_axis(blocks, np.abs(blocks).argmax(-1, keepdims=True), -1)[..., 0]
    assert np.array_equal(cells, worst)


def test_the_third_is_followed_through_the_layers_and_scattered(page: Page, tmp_path: Path) -> None:
    layers = {f"{layer:02d}_mlp": OURS + np.float32(layer) for layer in range(3)}
    two, third = write_folder(tmp_path / "r", **layers), write_folder(tmp_path / "t", **{"01_mlp": THIRD})
    comparison = page.compare(two, two, third={"path": str(third)})["id"]
    points = page.get(f"/comparisons/{comparison}/depth", row=1, at="2,3")["points"]
    assert [point["third"] for point in points] == [None, float(THIRD[2, 3]), None]
    found = raw(page, f"/comparisons/{comparison}/rows/1/scatter")
    assert np.array_equal(found, np.stack([layers["01_mlp"].ravel()] * 2 + [THIRD.ravel()], axis=1))
    assert raw(page, f"/comparisons/{comparison}/rows/0/scatter").shape == (24, 2)


def test_another_shape_is_seen_as_it_lies(page: Page, tmp_path: Path) -> None:
    other = RNG.standard_normal((2, 5)).astype(np.float32)
    x = row(page, compared(page, tmp_path, x=other), "x")
    layout = page.get(f"{x}/inspect")
    assert (layout["third"], layout["third_original"]["shape"]) == (None, [2, 5])
    for space in ("aligned", "original"):
        assert np.array_equal(raw(page, f"{x}/slice", side="third", space=space, at=":,:"), other)
    assert raw(page, f"{x}/overview", side="third", at=":,:", rows=2, columns=5).shape == (2, 5)


def test_a_row_without_a_third_says_so(page: Page, tmp_path: Path) -> None:
    y = row(page, compared(page, tmp_path, x=THIRD, other=np.zeros(3)), "y")
    assert page.get(y)["third"] is None
    assert page.get(f"{y}/inspect")["third_original"] is None
    assert "y is not in the third" in page.error("GET", f"{y}/slice?side=third&at=:", 400)


def test_names_are_brought_together_but_none_is_guessed(page: Page, tmp_path: Path) -> None:
    sides = [write_folder(tmp_path / name, **{"0_query": OURS, "0_key": OURS, "last": OURS}) for name in ("r", "c")]
    third = write_folder(tmp_path / "t", **{"00__query": THIRD, "00__key": THIRD, "something_else": OURS})
    comparison = page.compare(*sides, third={"path": str(third)})["id"]
    assert page.get(row(page, comparison, "0_query"))["third"] == "00.query"
    assert page.get(row(page, comparison, "last"))["third"] is None


def test_a_tensor_that_the_candidate_lacks_is_seen_beside_the_reference(page: Page, tmp_path: Path) -> None:
    reference = write_folder(tmp_path / "r", a=[1.0], left=OURS)
    candidate, third = write_folder(tmp_path / "c", a=[1.0]), write_folder(tmp_path / "t", left=THIRD)
    comparison = page.compare(reference, candidate, third={"path": str(third)})["id"]
    left = row(page, comparison, "left")
    assert page.get(left)["third"] == "left"
    assert np.array_equal(raw(page, f"{left}/slice", side="third", at=":,:"), THIRD)


def test_a_third_can_be_uploaded_and_goes_with_its_comparison(page: Page) -> None:
    two, third = page.upload(("x.npy", npy(OURS))), page.upload(("x.npy", npy(THIRD)))
    entry = page.compare(two, two, third={"upload": third})
    assert (entry["third"]["label"], entry["third"]["upload"], entry["verdict"]) == ("x.npy", third, "match")
    assert np.array_equal(raw(page, f"/comparisons/{entry['id']}/rows/0/slice", side="third", at=":,:"), THIRD)
    listed = page.get(f"/comparisons/{entry['id']}/tensors", side="third")
    assert listed["tensors"] == [{"key": "x", "shape": [4, 6], "dtype": "float32", "row": 0}]
    assert "delete that instead" in page.error("DELETE", f"/uploads/{third}", 400)
    page.client.delete(f"/api/comparisons/{entry['id']}")
    page.error("GET", f"/uploads/{third}", 404)


def test_a_third_that_cannot_be_opened_does_not_stop_the_other_two(page: Page, tmp_path: Path) -> None:
    two = write_folder(tmp_path / "r", x=OURS)
    (tmp_path / "t.zip").write_bytes(b"this is no archive")
    entry = page.compare(two, two, third={"path": str(tmp_path / "t.zip")})
    assert (entry["verdict"], entry["third"]["tensors"]) == ("match", None)
    warnings = page.get(f"/comparisons/{entry['id']}")["comparison"]["warnings"]
    assert any("the third trace cannot be opened" in text for text in warnings)
    assert page.get(f"/comparisons/{entry['id']}/rows/0")["readable"] == {"reference": True, "candidate": True}
    assert page.get(f"/comparisons/{entry['id']}/rows/0/inspect")["third"] is None


@pytest.mark.parametrize("kind", ["look", "self"])
@pytest.mark.parametrize("side", ["candidate", "third"])
def test_one_trace_alone_has_no_others(page: Page, tmp_path: Path, kind: str, side: str) -> None:
    path = {"path": str(write_folder(tmp_path / "r", x=OURS))}
    said = page.error("POST", "/comparisons", 400, json={"kind": kind, "reference": path, side: path})
    assert "takes one trace" in said


def test_a_third_that_is_a_control_judges_the_candidate(page: Page, tmp_path: Path) -> None:
    def noisy(name: str, seed: int, factor: float = 1.0) -> Path:
        noise = np.random.default_rng(seed).standard_normal(THIRD.shape).astype(np.float32)
        return write_folder(tmp_path / name, x=OURS * factor + np.float32(0.02) * noise)

    def found(candidate: Path) -> tuple[dict[str, Any], str]:
        entry = page.compare(reference, candidate, third={"path": str(control)}, options={"control": True})
        judged = page.get(row(page, str(entry["id"]), "x"))["pair"]["controlled"]
        return entry, judged["text"]

    reference, control = write_folder(tmp_path / "r", x=OURS), noisy("t", 1)
    entry, text = found(noisy("c", 2))
    assert entry["verdict"] == "match"
    assert "this is what fp32 costs here" in text
    entry, text = found(noisy("wrong", 2, 3.0))
    assert entry["verdict"] == "mismatch"
    assert "times what fp32 costs here" in text
