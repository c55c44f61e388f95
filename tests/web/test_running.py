"""A comparison that takes its time: seen from its own page and from the list, stopped, and never lost."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.web import dumps
from tests.web.serving import Server
from tests.web.watching import axe

OPENED = re.compile(r"/c/[^/]+$")


@pytest.fixture(autouse=True)
def empty_store(server: Server) -> None:
    server.forget_all()


@pytest.fixture
def frozen(page: Page, server: Server, tmp_path: Path) -> Iterator[int]:
    """The process of a comparison that was started on the page and stands still until SIGCONT."""
    page.goto("/")
    page.get_by_label("Reference path").fill(str(dumps.write_folder(tmp_path / "good", dumps.tensors())))
    page.get_by_label("Candidate path").fill(str(dumps.write_folder(tmp_path / "port", dumps.tensors(wrong_from=1))))
    page.get_by_role("button", name="Compare Models").click()
    process = server.freeze()
    expect(page).to_have_url(OPENED)
    yield process
    go_on(process)


def go_on(process: int) -> None:
    try:
        os.kill(process, signal.SIGCONT)
    except ProcessLookupError:
        return


def row(page: Page) -> Locator:
    return page.get_by_role("list", name="Recent comparisons").get_by_role("listitem")


def first_divergence(page: Page) -> Locator:
    return page.get_by_text("layers.1.attn").first


def test_its_page_shows_that_it_runs_and_then_the_result(page: Page, frozen: int) -> None:
    expect(page.get_by_role("progressbar")).to_be_visible()
    assert axe(page) == []
    go_on(frozen)
    expect(first_divergence(page)).to_be_visible()
    expect(page.get_by_role("progressbar")).to_have_count(0)


def test_the_list_shows_that_it_runs_and_then_its_verdict(page: Page, frozen: int) -> None:
    page.goto("/")
    expect(row(page)).to_contain_text("running")
    assert axe(page) == []
    go_on(frozen)
    expect(row(page)).to_contain_text("parts at layers.1.attn")


def test_it_is_cancelled_and_run_again(page: Page, server: Server, frozen: int) -> None:
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alert")).to_contain_text("cancelled")
    assert server.settled(page.url.rpartition("/")[2])["state"] == "cancelled"
    page.get_by_role("button", name="Run again").click()
    expect(first_divergence(page)).to_be_visible()


def test_a_reload_goes_on_following_it(page: Page, frozen: int) -> None:
    page.reload()
    expect(page.get_by_role("progressbar")).to_be_visible()
    go_on(frozen)
    expect(first_divergence(page)).to_be_visible()


def test_a_killed_server_starts_it_again_and_the_page_comes_to_the_result(
    page: Page, server: Server, frozen: int
) -> None:
    expect(page.get_by_role("progressbar")).to_be_visible()
    server.kill()
    os.kill(frozen, signal.SIGKILL)
    expect(page.get_by_text("trying again")).to_be_visible()
    server.start()
    expect(first_divergence(page)).to_be_visible()


def test_it_goes_on_while_nobody_looks(
    page: Page, new_context: Callable[..., BrowserContext], server: Server, frozen: int
) -> None:
    address = page.url
    page.context.close()
    go_on(frozen)
    assert server.settled(address.rpartition("/")[2])["state"] == "done"
    again = new_context().new_page()
    again.goto(address)
    expect(first_divergence(again)).to_be_visible()
