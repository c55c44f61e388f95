"""The file to hand on, opened from disk in a browser that has no server to ask."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.web.serving import FIRSTDIFF, Server
from tests.web.watching import axe

LARGE = (300, 700)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("shared")
    random = np.random.default_rng(5)
    for side in ("ref", "cand"):
        (folder / side).mkdir()
    for name, shape in (("layers.0.mlp", (3, 4, 8)), ("layers.1.mlp", (3, 4, 8)), ("layers.2.mlp", LARGE)):
        values = random.standard_normal(shape).astype(np.float32)
        np.save(folder / "ref" / f"{name}.npy", values)
        if name == "layers.1.mlp":
            values[1, 2, 5] += 2
            values[0, 0, 1] = np.nan
        np.save(folder / "cand" / f"{name}.npy", values)
    return folder / "ref", folder / "cand"


@pytest.fixture(scope="module")
def file(runs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As the command line writes it."""
    target = tmp_path_factory.mktemp("handed on") / "comparison.html"
    command = [str(FIRSTDIFF), "compare", *map(str, runs), "--format", "html", "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    return target


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def opened(browser: Browser, file: Path, asked: list[str]) -> Iterator[Callable[..., Page]]:
    """Opens the file; whatever it complains of or asks for beside itself fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    complaints: list[str] = []
    context.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    context.on("weberror", lambda error: complaints.append(str(error.error)))
    context.on("request", lambda request: asked.append(request.url))

    def go(rest: str = "") -> Page:
        page = context.new_page()
        page.goto(file.as_uri() + rest)
        expect(page.get_by_role("treegrid", name="Tensors")).to_be_visible()
        return page

    yield go
    context.close()
    assert complaints == []
    assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []


def inspector(page: Page) -> Page:
    page.get_by_role("link", name="layers.1.mlp").first.click()
    page.get_by_role("button", name="Inspect Raw Tensor Values").click()
    return page


def test_it_shows_the_comparison(opened: Callable[..., Page]) -> None:
    page = opened()
    expect(page.get_by_role("banner").first).to_be_visible()
    expect(page.get_by_text("layers.1.mlp").first).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Tolerances"))).to_have_count(0)
    expect(page.get_by_role("button", name="Download")).to_have_count(0)


def test_values_are_those_of_the_files(opened: Callable[..., Page], runs: tuple[Path, Path]) -> None:
    page = inspector(opened())
    page.get_by_label("Go to index").fill("1, 2, 5")
    page.get_by_role("button", name="Go", exact=True).click()
    page.mouse.move(0, 0)  # what lies under the pointer is told of first
    expect(page.get_by_label("Dimension 2", exact=True).last).to_have_value("5")
    candidate = np.load(runs[1] / "layers.1.mlp.npy")
    detail = page.get_by_role("region", name="Raw tensor values")
    expect(detail).to_contain_text(np.format_float_positional(candidate[1, 2, 5], unique=True))


def test_views_open_and_a_link_leads_back(opened: Callable[..., Page]) -> None:
    page = inspector(opened())
    page.get_by_role("button", name="Jump to Max Diff").click()
    for view in ("Heat maps", "Distribution", "Along depth"):
        page.get_by_role("tab", name=view).click()
        expect(page.get_by_role("tabpanel", name=view)).to_be_visible()
        expect(page.get_by_role("tabpanel", name=view).get_by_role("alert")).to_have_count(0)
    expect(page.get_by_role("tab", name="Manual Mapping")).to_have_count(0)
    expect(page).to_have_url(re.compile("view=depth"))
    again = opened("#" + page.url.partition("#")[2])
    expect(again.get_by_role("tab", name="Along depth")).to_have_attribute("aria-selected", "true")


def test_what_is_not_embedded_is_said(opened: Callable[..., Page], file: Path) -> None:
    page = opened()
    page.get_by_role("button", name="Expand All").click()
    page.get_by_text("layers.2.mlp").first.click()
    page.get_by_role("button", name="Inspect Raw Tensor Values").click()
    page.get_by_role("tab", name="Distribution").click()
    page.get_by_role("radio", name="the slice that is shown").check()
    expect(page.get_by_role("alert")).to_contain_text("This shared file does not hold that part")


def test_no_violation_in_either_theme(opened: Callable[..., Page]) -> None:
    for scheme in ("light", "dark"):
        page = opened()
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert axe(inspector(page)) == []


def test_the_page_hands_out_the_same_file(page: Page, server: Server, runs: tuple[Path, Path]) -> None:
    entry = server.compare(*runs)
    page.goto(f"/c/{entry['id']}")
    page.get_by_role("button", name="Download").click()
    with page.expect_download() as waiting:
        page.get_by_role("menuitem", name="Page to share (HTML)").click()
    text = Path(waiting.value.path()).read_text(encoding="utf-8")
    assert 'id="firstdiff-shared"' in text
    assert waiting.value.suggested_filename.endswith(".html")
