"""Recent comparisons: kept over restarts, renamed, deleted, found again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.web import dumps
from tests.web.serving import Server
from tests.web.watching import Console, axe


@pytest.fixture(autouse=True)
def empty_store(server: Server) -> None:
    server.forget_all()


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dumps.write_folder(tmp_path_factory.mktemp("runs") / "good", dumps.tensors())


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dumps.write_folder(tmp_path_factory.mktemp("runs") / "wrong", dumps.tensors(wrong_from=1))


def rows(page: Page) -> Locator:
    return page.get_by_role("list", name="Recent comparisons").get_by_role("listitem")


def menu(page: Page, name: str, item: str) -> None:
    page.get_by_role("button", name=f"More about {name}").click()
    page.get_by_role("menuitem", name=item).click()


def test_an_empty_store_offers_the_demo(page: Page, server: Server) -> None:
    page.goto("/")
    recent = page.get_by_role("region", name="Recent comparisons")
    expect(recent.get_by_text("Nothing compared yet")).to_be_visible()
    page.get_by_role("button", name="Open the demo").click()
    page.wait_for_url("**/c/*")
    assert server.settled(page.url.rpartition("/")[2])["verdict"] == "mismatch"


def test_each_shows_verdict_where_it_parts_when_and_its_size(
    page: Page, server: Server, good: Path, wrong: Path
) -> None:
    server.compare(good, good, name="the same")
    server.compare(good, wrong, name="a port")
    page.goto("/")
    newest, oldest = rows(page).nth(0), rows(page).nth(1)
    expect(newest).to_contain_text("mismatch")
    expect(newest).to_contain_text("parts at layers.1.attn")
    expect(newest).to_contain_text("just now")
    expect(newest).to_contain_text("kB")
    expect(oldest).to_contain_text("9 pairs within the tolerance")
    expect(page.get_by_text("2 comparisons · ")).to_be_visible()
    newest.get_by_role("link", name="a port").click()
    page.wait_for_url("**/c/*")
    page.go_back()
    expect(rows(page)).to_have_count(2)


def test_they_survive_a_killed_server(page: Page, server: Server, good: Path) -> None:
    server.compare(good, good, name="lasting")
    server.kill()
    server.start()
    page.goto("/")
    expect(rows(page).get_by_role("link", name="lasting")).to_be_visible()


def test_rename(page: Page, server: Server, good: Path) -> None:
    entry = server.compare(good, good, name="before")
    page.goto("/")
    menu(page, "before", "Rename")
    field = page.get_by_role("dialog").get_by_label("Name")
    expect(field).to_be_focused()
    expect(field).to_have_value("before")
    field.fill("after <b>&amp; ünï")
    page.keyboard.press("Enter")
    expect(rows(page).get_by_role("link", name="after <b>&amp; ünï", exact=True)).to_be_visible()
    assert server.settled(entry["id"])["name"] == "after <b>&amp; ünï"


def test_delete_asks_first(page: Page, server: Server, good: Path) -> None:
    server.compare(good, good, name="precious")
    page.goto("/")
    menu(page, "precious", "Delete")
    dialog = page.get_by_role("dialog", name="Delete the comparison?")
    expect(dialog).to_contain_text("precious")
    assert axe(page) == []
    dialog.get_by_role("button", name="Keep it").click()
    expect(rows(page)).to_have_count(1)
    menu(page, "precious", "Delete")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("Nothing compared yet")).to_be_visible()
    assert server.ask("GET", "/comparisons")["comparisons"] == []
    assert good.is_dir()


def test_the_menu_works_by_keyboard(page: Page, server: Server, good: Path) -> None:
    server.compare(good, good, name="keyed")
    page.goto("/")
    opener = page.get_by_role("button", name="More about keyed")
    opener.focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("menuitem", name="Rename")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("menuitem", name="Delete")).to_be_focused()
    page.keyboard.press("Escape")
    expect(opener).to_be_focused()


def test_two_tabs_see_the_same(
    new_context: Callable[..., BrowserContext], server: Server, good: Path, wrong: Path
) -> None:
    server.compare(good, good, name="one")
    server.compare(good, wrong, name="two")
    context = new_context()
    first, second = context.new_page(), context.new_page()
    for tab, name in ((first, "one"), (second, "two")):
        tab.goto("/")
        tab.get_by_role("link", name=name, exact=True).click()
        tab.wait_for_url("**/c/*")
    assert first.url != second.url
    first.goto("/")
    menu(first, "two", "Delete")
    first.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(rows(first)).to_have_count(1)
    second.goto("/")
    expect(rows(second)).to_have_count(1)


def test_two_hundred_are_listed_and_filtered(page: Page, server: Server, good: Path) -> None:
    side = {"path": str(good)}
    for number in range(200):
        body = {"kind": "pair", "reference": side, "candidate": side, "name": f"run {number:03}"}
        entry = server.ask("POST", "/comparisons", body)
        server.ask("POST", f"/comparisons/{entry['id']}/cancel")
    page.goto("/")
    expect(rows(page)).to_have_count(200)
    expect(page.get_by_text("200 comparisons · ")).to_be_visible()
    page.get_by_label("Filter comparisons").fill("run 01")
    expect(rows(page)).to_have_count(10)
    page.get_by_label("Filter comparisons").fill("nothing of that name")
    expect(page.get_by_text("No comparison contains “nothing of that name”.")).to_be_visible()
    page.get_by_label("Filter comparisons").fill("")
    assert axe(page) == []


def test_a_stopped_server_is_said_and_the_page_comes_back_with_it(
    page: Page, server: Server, console: Console, good: Path
) -> None:
    server.compare(good, good, name="still here")
    page.goto("/")
    expect(rows(page)).to_have_count(1)
    server.stop()
    page.get_by_role("button", name="Open the demo").click()
    expect(page.get_by_role("alert")).to_contain_text("The firstdiff server does not answer.")
    page.get_by_role("link", name="still here").click()
    expect(page.get_by_role("alert")).to_contain_text("could not be loaded")
    server.start()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="still here")).to_be_visible()
    assert all("Failed to load resource" in complaint for complaint in console.complaints)
    console.complaints.clear()


def test_a_stopped_server_is_said_and_tried_again(page: Page, server: Server, good: Path) -> None:
    server.compare(good, good, name="still here")
    page.goto("/")
    expect(rows(page)).to_have_count(1)
    server.stop()
    menu(page, "still here", "Rename")
    page.get_by_role("dialog").get_by_label("Name").fill("other")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The firstdiff server does not answer.")
    server.start()
    page.keyboard.press("Enter")
    expect(rows(page).get_by_role("link", name="other")).to_be_visible()
