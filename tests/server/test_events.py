from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.server.conftest import Page


def events(page: Page, comparison: str) -> list[tuple[str, Any]]:
    found = []
    with page.client.stream("GET", f"/api/comparisons/{comparison}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        name = ""
        for line in stream.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                found.append((name, json.loads(line.removeprefix("data: "))))
    return found


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
