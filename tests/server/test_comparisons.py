from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.server.conftest import Opener, Page, write_folder


def test_a_comparison_runs_and_names_its_first_divergence(page: Page, runs: tuple[Path, Path]) -> None:
    entry = page.compare(*runs)
    assert (entry["state"], entry["verdict"], entry["error"]) == ("done", "mismatch", None)
    assert entry["first"].startswith("First divergence: 01_mlp")
    assert entry["summary"]["match"] == 1
    assert entry["reference"] == {
        "label": "ref",
        "path": str(runs[0]),
        "upload": None,
        "tensors": 3,
        "bytes": None,
        "present": True,
    }
    assert entry["bytes"] > 0
    head = page.get(f"/comparisons/{entry['id']}")["comparison"]
    assert "pairs" not in head
    assert (head["verdict"], head["first_divergence"]["key"]) == ("mismatch", "01_mlp")
    assert (head["layers"], head["stages"], head["dtypes"]) == ([0, 1, 2], ["mlp"], ["float32"])
    (page.context.result(entry["id"]).folder / "choices.json").unlink()  # earlier versions did not write it
    assert page.get(f"/comparisons/{entry['id']}")["comparison"] == head


def test_the_newest_comparison_stands_first(page: Page, runs: tuple[Path, Path]) -> None:
    first, second = page.compare(*runs), page.compare(runs[0], runs[0])
    listed = page.get("/comparisons")
    assert [entry["id"] for entry in listed["comparisons"]] == [second["id"], first["id"]]
    assert listed["bytes"] == first["bytes"] + second["bytes"]


def test_both_the_same_is_said(page: Page, runs: tuple[Path, Path]) -> None:
    entry = page.compare(runs[0], runs[0])
    assert entry["verdict"] == "match"
    warnings = page.get(f"/comparisons/{entry['id']}")["comparison"]["warnings"]
    assert "reference and candidate are the same: they can only match" in warnings


def test_one_trace_alone_has_statistics_and_no_verdict(page: Page, tmp_path: Path) -> None:
    trace = write_folder(tmp_path / "one", a=[1.0, 3.0], b=[np.nan])
    entry = page.compare(trace, kind="look")
    assert (entry["state"], entry["verdict"], entry["candidate"]) == ("done", None, None)
    rows = page.get(f"/comparisons/{entry['id']}/rows")["rows"]
    assert [(row["name"], row["status"], row["candidate_shape"]) for row in rows] == [
        ("a", "alone", None),
        ("b", "alone", None),
    ]
    detail = page.get(f"/comparisons/{entry['id']}/rows/0")
    assert detail["pair"]["reference"]["statistics"]["mean"] == 2.0
    assert detail["first_values"] == {"reference": ["1.0", "3.0"], "candidate": []}
    assert "compare it with another" in page.error("POST", f"/comparisons/{entry['id']}/judge", 400, json={})


def test_a_file_against_itself_pairs_tensors_of_one_shape(page: Page, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.ones(3), b=np.ones(3), c=np.zeros(3), other=np.ones(5))
    entry = page.compare(tmp_path / "x.npz", kind="self")
    rows = page.get(f"/comparisons/{entry['id']}/rows")["rows"]
    assert [(row["key"], row["candidate_name"], row["status"]) for row in rows] == [
        ("a", "b", "match"),
        ("a", "c", "mismatch"),
        ("b", "c", "mismatch"),
    ]
    assert page.get(f"/comparisons/{entry['id']}/rows/1")["first_values"]["candidate"] == ["0.0"] * 3


def test_names_can_be_changed(page: Page, runs: tuple[Path, Path]) -> None:
    entry = page.compare(*runs)
    assert entry["name"] == "ref and cand"
    renamed = page.client.patch(f"/api/comparisons/{entry['id']}", json={"name": "  before\nthe fix "}).json()
    assert renamed["name"] == "before the fix"
    assert "needs a name" in page.error("PATCH", f"/comparisons/{entry['id']}", 400, json={"name": "  "})


def test_a_deleted_comparison_leaves_nothing_behind(page: Page, runs: tuple[Path, Path]) -> None:
    entry = page.compare(*runs)
    home = page.context.store.home
    assert home.results(entry["id"]).exists()
    assert page.client.delete(f"/api/comparisons/{entry['id']}").status_code == 204
    assert not home.results(entry["id"]).exists()
    assert page.get("/comparisons") == {"comparisons": [], "bytes": 0}
    assert "there is no comparison" in page.error("GET", f"/comparisons/{entry['id']}", 404)
    assert runs[0].exists()


def test_options_reach_the_comparison(page: Page, runs: tuple[Path, Path]) -> None:
    entry = page.compare(*runs, options={"atol": 1.0})
    assert entry["verdict"] == "match"
    toml = '[[tolerances]]\nname = "01.*"\natol = 1.0\n'
    entry = page.compare(*runs, options={"tolerances": toml})
    assert entry["first"].startswith("First divergence: 02_mlp")


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        ({"reference": {"path": "/no/such/run"}, "candidate": {"path": "/x"}}, 400, "does not exist"),
        ({"reference": {"path": "."}}, 400, "needs a candidate"),
        ({"reference": {}, "candidate": {"path": "."}}, 400, "a path or an upload"),
        ({"reference": {"path": " "}, "candidate": {"path": "."}}, 400, "is empty"),
        ({"reference": {"path": "a\0b"}, "candidate": {"path": "."}}, 400, "is empty"),
        ({"reference": {"upload": "none"}, "candidate": {"path": "."}}, 404, "there is no upload"),
        ({"reference": {"path": "."}, "candidate": {"path": "."}, "options": {"atol": -1}}, 400, "atol is -1"),
        ({"reference": {"path": "."}, "candidate": {"path": "."}, "options": {"tolerances": "x"}}, 400, "TOML"),
        ({"reference": {"path": "."}, "candidate": {"path": "."}, "surprise": 1}, 422, "surprise"),
        ({"candidate": {"path": "."}}, 422, "reference"),
    ],
)
def test_a_start_that_makes_no_sense_is_one_sentence(page: Page, body: object, code: int, says: str) -> None:
    assert says in page.error("POST", "/comparisons", code, json=body)
    assert page.get("/comparisons")["comparisons"] == []


def test_a_comparison_that_fails_says_why_and_can_run_again(page: Page, tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"no archive at all")
    np.save(tmp_path / "y.npy", np.ones(3))
    entry = page.compare(tmp_path / "x.zip", tmp_path / "y.npy")
    assert entry["state"] == "failed"
    assert "is of no format that firstdiff reads" in entry["error"]
    assert "it failed" in page.error("GET", f"/comparisons/{entry['id']}/rows", 409)
    (tmp_path / "x.zip").unlink()
    np.savez(tmp_path / "x.zip", y=np.ones(3))
    (tmp_path / "x.zip.npz").rename(tmp_path / "x.zip")
    page.post(f"/comparisons/{entry['id']}/rerun")
    assert page.finished(entry["id"])["verdict"] == "match"


def test_a_rerun_shows_the_old_result_until_there_is_a_new_one(page: Page, runs: tuple[Path, Path]) -> None:
    entry = page.compare(*runs)
    page.post(f"/comparisons/{entry['id']}/rerun")
    assert len(page.get(f"/comparisons/{entry['id']}/rows")["rows"]) == 3
    assert page.finished(entry["id"])["state"] == "done"
    results = page.context.store.home.results(entry["id"])
    assert {folder.name for folder in results.iterdir()} == {"000001", "000002"}, "others may be reading the old one"
    page.context.jobs.close()
    assert [folder.name for folder in results.iterdir()] == ["000002"]


def test_the_demo_is_compared_once(page: Page) -> None:
    first = page.post("/demo")
    entry = page.finished(first["id"])
    assert entry["first"].startswith("First divergence: layers.2.ln_1")
    assert page.post("/demo")["id"] == first["id"]
    assert page.get("/about")["demos"] == ["gpt", "diffusion"]


def test_closing_the_server_loses_nothing(open_page: Opener, runs: tuple[Path, Path]) -> None:
    page = open_page()
    done = page.compare(*runs)
    page.context.jobs.close()
    waiting = page.post("/comparisons", {"reference": {"path": str(runs[0])}, "candidate": {"path": str(runs[1])}})
    assert waiting["state"] == "queued"
    again = open_page()
    assert again.get(f"/comparisons/{done['id']}")["entry"] == done
    assert again.finished(waiting["id"])["state"] == "done"


def test_a_cancelled_comparison_stays_cancelled(page: Page, runs: tuple[Path, Path]) -> None:
    started = page.post("/comparisons", {"reference": {"path": str(runs[0])}, "candidate": {"path": str(runs[1])}})
    assert page.post(f"/comparisons/{started['id']}/cancel")["state"] == "cancelled"
    other = page.compare(*runs)
    assert other["state"] == "done"
    assert page.get(f"/comparisons/{started['id']}")["entry"]["state"] == "cancelled"
    assert "it was cancelled" in page.error("GET", f"/comparisons/{started['id']}/rows", 409)


def test_files_that_are_gone_are_noticed(page: Page, runs: tuple[Path, Path]) -> None:
    entry = page.compare(*runs)
    runs[1].rename(runs[1].with_name("moved"))
    now = page.get(f"/comparisons/{entry['id']}")["entry"]
    assert (now["reference"]["present"], now["candidate"]["present"]) == (True, False)
    detail = page.get(f"/comparisons/{entry['id']}/rows/0")
    assert detail["readable"] == {"reference": True, "candidate": False}
    assert "does not exist" in detail["notices"][0]
    assert detail["pair"]["metrics"]["elements"] == 32


def test_a_result_that_is_gone_is_one_sentence(page: Page, runs: tuple[Path, Path]) -> None:
    entry = page.compare(*runs)
    for file in page.context.store.home.result(entry["id"], 1).iterdir():
        file.unlink()
    assert "run the comparison again" in page.error("GET", f"/comparisons/{entry['id']}/rows", 410)
