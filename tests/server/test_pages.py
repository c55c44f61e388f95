from __future__ import annotations

from pathlib import Path

import pytest

from firstdiff.server import app
from tests.server.conftest import Page


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    static = tmp_path / "static"
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text("<!doctype html><title>page</title>", encoding="utf-8")
    (static / "assets" / "app-123.js").write_text("start()", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("hidden", encoding="utf-8")
    monkeypatch.setattr(app, "STATIC", static)
    return static


@pytest.mark.parametrize("path", ["/", "/c/abc", "/c/abc/row/12", "/c/a.b"])
def test_the_page_can_be_reloaded_anywhere(page: Page, built: Path, path: str) -> None:
    answer = page.client.get(path)
    assert (answer.status_code, answer.text) == (200, "<!doctype html><title>page</title>")
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["cache-control"] == "no-cache"


def test_files_of_the_page_are_kept_by_the_browser(page: Page, built: Path) -> None:
    answer = page.client.get("/assets/app-123.js")
    assert answer.text == "start()"
    assert "javascript" in answer.headers["content-type"]
    assert "immutable" in answer.headers["cache-control"]
    assert page.client.get("/assets/old-99.js").status_code == 404


@pytest.mark.parametrize("path", ["/../secret.txt", "/%2e%2e/secret.txt", "/assets/..%2f..%2fsecret.txt", "/%00"])
def test_nothing_outside_of_the_page_is_served(page: Page, built: Path, path: str) -> None:
    assert "hidden" not in page.client.get(path).text


def test_a_checkout_that_was_not_built_says_what_to_run(page: Page, built: Path) -> None:
    (built / "index.html").unlink()
    answer = page.client.get("/")
    assert answer.status_code == 503
    assert "make run" in answer.text


def test_a_route_that_is_not_there_is_one_sentence(page: Page) -> None:
    assert page.error("GET", "/nothing", 404) == "there is no GET /api/nothing"
    assert page.error("POST", "/about", 405)
