"""Files that change, break or go away under an open page: a clear sentence, and no more."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.web import inspecting as on
from tests.web.serving import Server
from tests.web.watching import Console

VALUES = np.arange(60, dtype=np.float32).reshape(3, 4, 5)


@pytest.fixture
def run(server: Server, tmp_path: Path) -> str:
    return on.compared(server, tmp_path, {"x": VALUES}, {"x": VALUES + (VALUES == 30)})


def move(page: Page) -> None:
    on.field(page, 0).fill("1")
    page.keyboard.press("Tab")


def test_a_deleted_file_is_told_of_when_the_slider_moves(page: Page, server: Server, run: str, tmp_path: Path) -> None:
    view = on.inspect(page, server, run, "x")
    expect(on.grid(page)).to_be_visible()
    (tmp_path / "cand.trace" / "000000.npy").unlink()
    move(page)
    expect(view.get_by_role("alert")).to_contain_text("000000.npy")


def test_a_file_of_another_shape_asks_to_compare_again(page: Page, server: Server, run: str, tmp_path: Path) -> None:
    view = on.inspect(page, server, run, "x")
    expect(on.grid(page)).to_be_visible()
    shutil.rmtree(tmp_path / "cand.trace")
    on.write_trace(tmp_path / "cand.trace", {"x": VALUES[:2]})
    move(page)
    expect(view.get_by_role("alert")).to_contain_text("compare again")


def test_other_values_in_the_file_are_shown_and_said_to_be_new(
    page: Page, server: Server, run: str, tmp_path: Path
) -> None:
    view = on.inspect(page, server, run, "x")
    expect(on.grid(page)).to_be_visible()
    expect(view.get_by_role("alert")).to_have_count(0)
    np.save(tmp_path / "cand.trace" / "000000.npy", VALUES * 2)
    move(page)
    expect(view.get_by_role("alert")).to_contain_text("The files of the candidate have changed")
    expect(on.cell(page, 1, 0, 0).locator("span").last).to_have_text("40")
    page.reload()
    expect(on.inspector(page).get_by_role("alert")).to_contain_text("The files of the candidate have changed")


def test_a_file_that_was_cut_short_does_not_end_the_server(
    page: Page, server: Server, run: str, tmp_path: Path
) -> None:
    view = on.inspect(page, server, run, "x")
    expect(on.grid(page)).to_be_visible()
    file = tmp_path / "cand.trace" / "000000.npy"
    file.write_bytes(file.read_bytes()[:150])
    move(page)
    expect(view.get_by_role("alert")).to_be_visible()
    assert server.ask("GET", "/about")


def test_a_server_that_was_stopped_is_told_of_and_found_again(
    page: Page, server: Server, run: str, console: Console
) -> None:
    view = on.inspect(page, server, run, "x")
    expect(on.grid(page)).to_be_visible()
    server.kill()
    try:
        move(page)
        expect(view.get_by_role("alert")).to_contain_text("does not answer")
    finally:
        server.start()
    on.field(page, 0).fill("2")
    page.keyboard.press("Tab")
    expect(on.cell(page, 2, 0, 0)).to_be_visible()
    expect(view.get_by_role("alert")).to_have_count(0)
    console.complaints.clear()
