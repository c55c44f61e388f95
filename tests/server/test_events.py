from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.server.conftest import Page, put_piece
from tests.server.test_crash import slow_runs


def follow(page: Page, path: str) -> Iterator[tuple[str, Any]]:
    """Events as they come, until the server ends the stream."""
    with page.client.stream("GET", f"/api{path}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        name = ""
        for line in stream.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield name, json.loads(line.removeprefix("data: "))


def events(page: Page, comparison: str) -> list[tuple[str, Any]]:
    return list(follow(page, f"/comparisons/{comparison}"))


def test_a_comparison_is_followed_to_its_end(page: Page, runs: tuple[Path, Path]) -> None:
    started = page.post("/comparisons", {"reference": {"path": str(runs[0])}, "candidate": {"path": str(runs[1])}})
    seen = events(page, started["id"])
    states = [data["state"] for name, data in seen if name == "state"]
    assert states[-1] == "done"
    assert set(states) <= {"queued", "running", "done"}
    for name, data in seen:
        if name == "progress":
            assert data["done"] <= data["total"] or data["total"] == 0
            assert data["stage"]


def test_one_that_is_over_says_so_at_once(page: Page, runs: tuple[Path, Path]) -> None:
    entry = page.compare(*runs)
    assert events(page, entry["id"]) == [("state", entry)]


def test_one_that_is_not_there(page: Page) -> None:
    assert "there is no comparison" in page.error("GET", "/comparisons/none/events", 404)


def test_progress_is_told_and_a_cancelled_one_ends(page: Page, tmp_path: Path) -> None:
    reference, candidate = slow_runs(tmp_path)
    body = {"reference": {"path": str(reference)}, "candidate": {"path": str(candidate)}}
    comparison = page.post("/comparisons", body)["id"]
    seen = []
    for name, data in follow(page, f"/comparisons/{comparison}"):
        seen.append((name, data["stage"] if name == "progress" else data["state"]))
        if name == "progress":
            page.post(f"/comparisons/{comparison}/cancel")
    assert seen[-1] == ("state", "cancelled")
    assert ("state", "running") in seen
    assert any(name == "progress" for name, _ in seen)
    page.context.jobs.close()
    assert not list(page.context.store.home.results(comparison).glob("*")), "what it had written is gone"


def test_an_upload_is_followed_until_all_of_it_is_there(page: Page) -> None:
    upload = page.post("/uploads", {"files": [{"name": "a", "size": 3}, {"name": "b", "size": 2}]})["id"]
    pieces = iter([(0, b"abc"), (1, b"de")])
    seen = []
    for name, data in follow(page, f"/uploads/{upload}"):
        seen.append((name, data["have"], data["size"]))
        if data["have"] < data["size"]:
            number, piece = next(pieces)
            put_piece(page.client, upload, number, 0, piece)
    assert seen == [("progress", 0, 5), ("progress", 3, 5), ("progress", 5, 5)]


def test_an_upload_that_is_thrown_away_ends_its_events(page: Page) -> None:
    upload = page.post("/uploads", {"files": [{"name": "a", "size": 3}]})["id"]
    for _ in follow(page, f"/uploads/{upload}"):
        page.client.delete(f"/api/uploads/{upload}")
    assert "there is no upload" in page.error("GET", f"/uploads/{upload}/events", 404)
