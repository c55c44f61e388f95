from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from firstdiff.server.guard import EXPOSED_HEADERS
from firstdiff.trace import Record, TraceWriter
from tests.server.conftest import Page, write_folder

RNG = np.random.default_rng(0)


def opened(page: Page, tmp_path: Path, reference: Any, candidate: Any, name: str = "x") -> str:
    """The address of the one row of a comparison of two arrays."""
    sides = write_folder(tmp_path / "r", **{name: reference}), write_folder(tmp_path / "c", **{name: candidate})
    entry = page.compare(*sides)
    assert entry["state"] == "done", entry
    return f"/comparisons/{entry['id']}/rows/0"


def raw(page: Page, path: str, **query: Any) -> np.ndarray:
    answer = page.client.get(f"/api{path}", params=query)
    assert answer.status_code == 200, answer.text
    shape = tuple(int(length) for length in answer.headers["x-shape"].split(",") if length)
    dtype = np.dtype(getattr(ml_dtypes, answer.headers["x-dtype"], None) or answer.headers["x-dtype"])
    return np.frombuffer(answer.content, dtype).reshape(shape)


def test_a_slice_travels_as_its_own_bytes(page: Page, tmp_path: Path) -> None:
    ours = RNG.standard_normal((3, 5, 7)).astype(np.float32)
    theirs = ours + np.float32(1)
    row = opened(page, tmp_path, ours, theirs)
    layout = page.get(f"{row}/inspect")
    assert layout["aligned"]["shape"] == [3, 5, 7]
    assert layout["reference"] == {"shape": [3, 5, 7], "dtype": "float32"}
    assert (layout["audio"], layout["recipe"], layout["third"]) == (False, None, None)
    assert np.array_equal(raw(page, f"{row}/slice", side="reference", at="1,:,2:4"), ours[1, :, 2:4])
    assert np.array_equal(raw(page, f"{row}/slice", side="candidate", at="2,4,6"), theirs[2, 4, 6])
    assert np.array_equal(raw(page, f"{row}/slice", side="candidate", flat="100:999"), theirs.reshape(-1)[100:])


@pytest.mark.parametrize("dtype", ["int64", "bool", "float16", "complex64", "float64", "uint8"])
def test_every_type_keeps_its_bits(page: Page, tmp_path: Path, dtype: str) -> None:
    values = np.arange(24).reshape(2, 12).astype(dtype)
    if dtype == "int64":
        values[0, 0] = 2**62 + 1
    row = opened(page, tmp_path, values, values)
    assert np.array_equal(raw(page, f"{row}/slice", side="reference", at=":,:"), values)


def test_the_aligned_space_applies_the_recipe(page: Page, tmp_path: Path) -> None:
    ours = RNG.standard_normal((4, 6)).astype(np.float32)
    row = opened(page, tmp_path, ours, ours.T.copy())
    layout = page.get(f"{row}/inspect")
    assert layout["recipe"] is not None
    assert layout["candidate"]["shape"] == [6, 4]
    shape = layout["aligned"]["shape"]
    at = ",".join(":" for _ in shape)
    assert np.array_equal(
        raw(page, f"{row}/slice", side="reference", at=at), raw(page, f"{row}/slice", side="candidate", at=at)
    )
    assert np.array_equal(raw(page, f"{row}/slice", side="candidate", space="original", at=":,:"), ours.T)


def test_scalars_and_empty_tensors_open(page: Page, tmp_path: Path) -> None:
    row = opened(page, tmp_path, np.float32(3), np.float32(4))
    assert raw(page, f"{row}/slice", side="candidate", at="").tolist() == 4.0
    empty = opened(page, tmp_path, np.zeros((0, 3), "f4"), np.zeros((0, 3), "f4"), "e")
    assert raw(page, f"{empty}/slice", side="candidate", at=":,:").shape == (0, 3)


def test_an_overview_shows_one_wrong_cell(page: Page, tmp_path: Path) -> None:
    ours = np.zeros((2100, 2100), np.float32)
    theirs = ours.copy()
    theirs[1234, 17] = -2.0
    row = opened(page, tmp_path, ours, theirs)
    for _ in range(2):  # computed, then from disk
        cells = raw(page, f"{row}/overview", side="difference", at=":,:", rows=10, columns=20)
        assert cells.shape == (10, 20)
        assert cells[cells != 0].tolist() == [-2.0]
    assert page.error("GET", f"{row}/overview?side=difference&at=:,:&rows=0&columns=5", 422)


def test_single_elements_are_found(page: Page, tmp_path: Path) -> None:
    ours = RNG.standard_normal((3, 4)).astype(np.float32)
    theirs = ours.copy()
    theirs[1, 2] += 3
    theirs[2, 0] = np.nan
    row = opened(page, tmp_path, ours, theirs)
    items = page.get(f"{row}/largest", count=5)["items"]
    assert [item["index"] for item in items] == [[2, 0], [1, 2]]
    assert float(items[1]["reference"]) == ours[1, 2]
    assert items[1]["difference"] == pytest.approx(3, rel=1e-6)
    assert page.get(f"{row}/search", kind="nan", side="candidate")["items"][0]["index"] == [2, 0]
    assert page.get(f"{row}/search", kind="nan", side="reference") == {
        "items": [],
        "next": None,
        "scanned": 12,
        "total": 12,
    }
    first = page.get(f"{row}/search", kind="mismatch")
    assert first["items"][0]["index"] == [1, 2]
    assert page.get(f"{row}/search", kind="mismatch", after=first["next"])["items"][0]["index"] == [2, 0]
    assert page.get(f"{row}/search", kind="value", side="reference", low=repr(float(ours[0, 3])))["items"][0][
        "index"
    ] == [0, 3]
    assert "no number" in page.error("GET", f"{row}/search?kind=value&low=abc", 400)


def test_profiles_histograms_and_scatter(page: Page, tmp_path: Path) -> None:
    ours = RNG.standard_normal((3, 4)).astype(np.float32)
    theirs = ours.copy()
    theirs[1] += 2
    row = opened(page, tmp_path, ours, theirs)
    assert page.get(f"{row}/profile", dim=0)["max_abs"] == pytest.approx([0, 2, 0], abs=1e-6)
    assert "no dimension 5" in page.error("GET", f"{row}/profile?dim=5", 400)
    counted = page.get(f"{row}/histogram", sides="difference", bins=4)["items"][0]
    assert (counted["counts"][0], counted["counts"][-1], counted["sampled"]) == (8, 4, False)
    assert np.array_equal(raw(page, f"{row}/scatter", at="1,:"), np.stack([ours[1], theirs[1]], axis=1))


def test_a_mapping_by_hand_and_common_ones(page: Page, tmp_path: Path) -> None:
    ours = RNG.standard_normal((3, 3)).astype(np.float32)
    row = opened(page, tmp_path, ours, ours.T.copy())
    wanted = {"reference": {"at": ":,:", "shown": [0, 1]}, "candidate": {"at": ":,:", "shown": [1, 0]}}
    found = page.post(f"{row}/mapping", wanted)
    assert (found["identical"], found["differing"], found["elements"]) == (True, 0, 9)
    assert found["reference"]["mean"] == found["candidate"]["mean"]
    tried = page.post(f"{row}/mapping/common")["tried"]
    assert tried[0]["fits"]
    assert tried[0]["recipe"] == "a b -> b a"
    wanted["candidate"]["at"] = "9,:"
    assert "which has 3" in page.error("POST", f"{row}/mapping", 400, json=wanted)


def test_mapping_works_where_nothing_was_aligned(page: Page, tmp_path: Path) -> None:
    row = opened(page, tmp_path, RNG.standard_normal((4, 6)).astype("f4"), RNG.standard_normal((5, 7)).astype("f4"))
    assert page.get(f"{row}/inspect")["aligned"] is None
    wanted = {"reference": {"at": ":,:", "shown": [0, 1]}, "candidate": {"at": ":,:", "shown": [0, 1]}}
    assert page.post(f"{row}/mapping", wanted)["covers"] is False
    assert raw(page, f"{row}/slice", side="candidate", space="original", at="0,:").shape == (7,)
    assert "map them by hand" in page.error("GET", f"{row}/slice?side=candidate&at=0,:", 400)


@pytest.mark.parametrize("space", ["aligned", "original"])
def test_slices_are_exported(page: Page, tmp_path: Path, space: str) -> None:
    ours = np.array([[0.1, np.nan], [3.0, -0.0]], np.float32)
    row = opened(page, tmp_path, ours, ours)
    query = {"side": "reference", "at": ":,:", "space": space}
    npy = page.client.get(f"/api{row}/export", params={**query, "format": "npy"})
    assert np.array_equal(np.load(io.BytesIO(npy.content)), ours, equal_nan=True)
    text = page.client.get(f"/api{row}/export", params={**query, "format": "csv"})
    assert np.array_equal(np.genfromtxt(io.StringIO(text.text), delimiter=",").astype(np.float32), ours, equal_nan=True)
    assert "attachment" in text.headers["content-disposition"]


def test_one_element_is_followed_through_the_layers(page: Page, tmp_path: Path) -> None:
    arrays = {f"layers__{layer}__mlp": np.full((2, 3), layer, "f4") for layer in range(4)}
    changed = {name: values + (np.arange(6).reshape(2, 3) == 5) for name, values in arrays.items()}
    sides = write_folder(tmp_path / "r", **arrays), write_folder(tmp_path / "c", **changed)
    comparison = page.compare(*sides)["id"]
    points = page.get(f"/comparisons/{comparison}/depth", row=1, at="1,2")["points"]
    assert [(point["layer"], point["reference"], point["candidate"]) for point in points] == [
        (layer, layer, layer + 1) for layer in range(4)
    ]


def test_sound_is_drawn_and_played(page: Page, tmp_path: Path) -> None:
    wave = np.sin(np.arange(8000) * 0.05).astype(np.float32)
    late = np.concatenate([np.zeros(12, "f4"), wave])[:8000] * np.float32(0.5)
    for side, values in (("r", wave), ("c", late)):
        with TraceWriter(tmp_path / f"{side}.trace") as writer:
            writer.write(Record(name="wave", role="tap", seq=0, attrs={"sample_rate": 8000}), values)
    comparison = page.compare(tmp_path / "r.trace", tmp_path / "c.trace")["id"]
    row = f"/comparisons/{comparison}/rows/0"
    assert page.get(f"{row}/inspect")["audio"] is True
    report = page.get(f"{row}/audio/report")
    assert report["gain_db"] == pytest.approx(-6.02, abs=0.1)
    assert len(report["peaks"]["difference"]["low"]) == 1200
    for side in ("reference", "candidate", "difference"):
        played = page.client.get(f"/api{row}/audio", params={"side": side})
        assert played.content.startswith(b"RIFF")
        drawn = page.client.get(f"/api{row}/audio/spectrogram", params={"side": side})
        assert drawn.content.startswith(b"\x89PNG")


def test_what_is_no_sound_is_refused_in_a_sentence(page: Page, tmp_path: Path) -> None:
    row = opened(page, tmp_path, np.ones(4, "f4"), np.ones(4, "f4"))
    assert "record it with a sample_rate" in page.error("GET", f"{row}/audio/report", 400)


@pytest.mark.parametrize(
    ("query", "code", "sentence"),
    [
        ("side=reference&at=0", 400, "2 parts"),
        ("side=reference&at=9,:", 400, "which has 4"),
        ("side=reference&flat=x", 400, "write 0:256"),
        ("side=third&at=:,:", 400, "not in the third"),
        ("side=nobody&at=:,:", 422, "does not fit"),
    ],
)
def test_slices_that_make_no_sense(page: Page, tmp_path: Path, query: str, code: int, sentence: str) -> None:
    row = opened(page, tmp_path, np.ones((4, 5), "f4"), np.ones((4, 5), "f4"))
    assert sentence in page.error("GET", f"{row}/slice?{query}", code)


def test_too_large_a_slice_is_refused(page: Page, tmp_path: Path) -> None:
    values = np.zeros((2300, 2300), np.int8)
    row = opened(page, tmp_path, values, values)
    assert "more than one answer holds" in page.error("GET", f"{row}/slice?side=reference&at=:,:", 413)


def test_files_that_changed_or_went_away_are_told_of(page: Page, tmp_path: Path) -> None:
    row = opened(page, tmp_path, np.ones((4, 5), "f4"), np.ones((4, 5), "f4"))
    np.save(tmp_path / "c" / "x.npy", np.ones((6, 5), "f4"))
    assert "compare again" in page.error("GET", f"{row}/slice?side=candidate&at=0,:", 409)
    (tmp_path / "c" / "x.npy").unlink()
    sentence = page.error("GET", f"{row}/slice?side=candidate&at=0,:", 409)
    assert json.dumps(sentence)
    assert "candidate" in sentence


def test_other_values_in_a_file_are_noticed(page: Page, tmp_path: Path) -> None:
    row = opened(page, tmp_path, np.ones((4, 5), "f4"), np.full((4, 5), 2, "f4"))
    assert page.get(f"{row}/inspect")["changed"] == []
    stamp = page.client.get(f"/api{row}/slice?side=candidate&at=0,:").headers["x-stamp"]
    np.save(tmp_path / "c" / "x.npy", np.full((4, 5), 3, "f4"))
    assert page.get(f"{row}/inspect")["changed"] == ["candidate"]
    assert page.client.get(f"/api{row}/slice?side=candidate&at=0,:").headers["x-stamp"] != stamp


def test_a_layout_that_was_not_applied_is_not_the_recipe(page: Page, tmp_path: Path) -> None:
    ours = RNG.standard_normal((6, 6)).astype(np.float32)
    row = opened(page, tmp_path, ours, ours.T.copy())
    assert page.get(f"{row}/inspect")["recipe"] is None
    assert np.array_equal(raw(page, f"{row}/slice", side="candidate", at=":,:"), ours.T)


def test_mismatches_are_those_of_the_verdict(page: Page, tmp_path: Path) -> None:
    ours = np.array([1.0, np.nan, np.nan, 4.0], np.float32)
    theirs = np.array([1.0, np.nan, 2.0, 9.0], np.float32)
    row = opened(page, tmp_path, ours, theirs)
    found = page.get(f"{row}/search", kind="mismatch", count=9)["items"]
    assert [item["index"] for item in found] == [[1], [2], [3]]


def test_flattened_slices_are_exported_too(page: Page, tmp_path: Path) -> None:
    ours = np.arange(24, dtype=np.int64).reshape(4, 6) + 2**60
    row = opened(page, tmp_path, ours, ours)
    query = {"side": "candidate", "flat": "5:9"}
    npy = page.client.get(f"/api{row}/export", params={**query, "format": "npy"})
    assert np.array_equal(np.load(io.BytesIO(npy.content)), ours.reshape(-1)[5:9])
    text = page.client.get(f"/api{row}/export", params={**query, "format": "csv"}).text
    assert text.strip().split(",") == [str(value) for value in ours.reshape(-1)[5:9].tolist()]


def test_histograms_of_unknown_sides_are_refused(page: Page, tmp_path: Path) -> None:
    row = opened(page, tmp_path, np.ones(4, "f4"), np.ones(4, "f4"))
    assert "is no side" in page.error("GET", f"{row}/histogram?sides=nobody", 400)


def test_every_header_of_a_response_can_be_read_by_other_origins(page: Page, tmp_path: Path) -> None:
    values = np.arange(12, dtype="f4").reshape(3, 4)
    entry = page.compare(write_folder(tmp_path / "r", x=values), write_folder(tmp_path / "c", x=values + 1))
    exposed = {name.strip().lower() for name in EXPOSED_HEADERS.split(",")}
    sent: set[str] = set()
    for path in ("slice?side=candidate&at=0,:", "overview?side=candidate&at=:,:&rows=2&columns=2", "scatter?at=1,:"):
        answer = page.client.get(f"/api/comparisons/{entry['id']}/rows/0/{path}")
        assert answer.status_code == 200, answer.text
        sent |= {name for name in answer.headers if name.startswith("x-")}
    ours = sent - {"x-content-type-options", "x-frame-options"}
    assert {"x-shape", "x-stamp", "x-sampled"} <= ours <= exposed
