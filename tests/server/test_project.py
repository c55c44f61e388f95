"""The project that the server was started in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Done, firstdiff
from tests.server.conftest import Opener
from tests.workflows.scratch import changed, scratch_project, write_port

__all__ = ["firstdiff"]


def test_a_server_outside_of_a_project_has_none(open_page: Opener) -> None:
    page = open_page()
    assert page.client.get("/api/project").json() == {"project": None}
    done = page.client.post("/api/project/comparison", json={"input_set": "short"})
    assert (done.status_code, "there is no project" in done.json()["error"]) == (400, True)


def test_components_over_runs_the_plan_and_the_comparison(
    open_page: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, firstdiff: Callable[..., Done]
) -> None:
    folder = scratch_project(tmp_path / "project")
    monkeypatch.chdir(folder)
    page = open_page(project=folder / "firstdiff.toml")
    shown = page.client.get("/api/project").json()["project"]
    assert (shown["name"], shown["validations"]) == ("project", [])
    assert shown["tasks"][0]["check"] == "firstdiff golden --input short"

    firstdiff("golden")
    firstdiff("validate")
    write_port(folder, changed("x / 1.5", "x / 1.5 + 0.25"))
    firstdiff("validate")
    shown = page.client.get("/api/project").json()["project"]
    (validation,) = shown["validations"]
    assert (validation["passed"], validation["cause"]) == (False, "offset.constant")
    histories = {part["name"]: part["history"] for part in validation["components"]}
    assert histories["encoder"] == ["pass", "fail"]
    assert histories["embedding"] == ["pass", "pass"]
    assert [task["title"] for task in shown["tasks"] if not task["done"]] == ["encoder", "head"]

    entry = page.client.post("/api/project/comparison", json={"input_set": "short"}).json()
    assert entry["reference"]["path"].endswith("golden/short")
    assert entry["candidate"]["path"].endswith(".firstdiff/candidate/short")

    (folder / "firstdiff.toml").write_text("[candidat]", encoding="utf-8")
    shown = page.client.get("/api/project").json()["project"]
    assert "unknown entry candidat" in shown["error"]


def test_the_comparison_is_made_with_the_projects_own_options(
    open_page: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, firstdiff: Callable[..., Done]
) -> None:
    """Tolerances, map and layouts as `validate` has them: the page must not contradict it."""
    rule = '[[tolerances]]\nname = "encoder\\\\..*|head\\\\.logits"\natol = 0.6\nrtol = 0.0\n'
    port = changed('"embed.out"', '"embedding"', changed("x / 1.5", "x / 1.5 + 0.25"))
    folder = scratch_project(tmp_path / "project", port=port, more=rule)
    settings = folder / "firstdiff.toml"
    settings.write_text('map = "map.toml"\n' + settings.read_text(encoding="utf-8"), encoding="utf-8")
    pair = '[[pair]]\nreference = "embed.out"\ncandidate = "embedding"\n'
    (folder / "map.toml").write_text(pair, encoding="utf-8")
    monkeypatch.chdir(folder)
    firstdiff("golden")
    done = firstdiff("validate")
    assert done.code == 0, done.out + done.err

    page = open_page(project=settings)
    entry = page.finished(page.post("/project/comparison", {"input_set": "short"})["id"])
    assert entry["verdict"] == "match", entry
    again = page.post("/project/comparison", {"input_set": "short"})
    assert again["id"] == entry["id"], "the same comparison, run again"
    settings.write_text(settings.read_text(encoding="utf-8").replace("atol = 0.6", "atol = 0.1"), encoding="utf-8")
    other = page.finished(page.post("/project/comparison", {"input_set": "short"})["id"])
    assert (other["verdict"], other["id"] == entry["id"]) == ("mismatch", False)
