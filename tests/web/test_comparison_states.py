"""The comparison page where there is nothing to show, not yet, or something in the way; and its addresses."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.web import comparisons as on
from tests.web import dumps
from tests.web.serving import Server
from tests.web.watching import Console, axe


@pytest.fixture(scope="module")
def mixed(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    return on.compared(server, tmp_path_factory.mktemp("mixed"), *on.mixed())


def test_nothing_paired_is_said_with_what_to_do(page: Page, server: Server, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    reference = {"a": random.standard_normal(3), "b": random.standard_normal(7)}
    candidate = {"yyy": random.standard_normal((4, 5)), "zzz": random.standard_normal((2, 2))}
    strangers = on.compared(server, tmp_path, reference, candidate)
    on.opened(page, strangers)
    expect(page.get_by_text("Nothing was paired", exact=True)).to_be_visible()
    expect(page.get_by_text("2 tensors are only in the reference, 2 are only in the candidate")).to_be_visible()
    expect(page.get_by_role("region", name="Comparison")).to_contain_text("not compared")
    expect(page.get_by_role("region", name="Error over depth")).to_be_hidden()
    assert axe(page) == []
    page.get_by_role("button", name="Pair two leftovers…").click()
    dialog = page.get_by_role("dialog", name="Pair two leftovers")
    for name in ("a", "yyy"):
        dialog.get_by_role("radio", name=re.compile(f"^{name}")).check()
    dialog.get_by_role("button", name="Pair them").click()
    expect(page.get_by_text("Nothing was paired", exact=True)).to_be_hidden()
    expect(on.count(page, "mismatch")).to_contain_text("1")


def test_all_that_matches_says_so(page: Page, server: Server, tmp_path: Path) -> None:
    reference = on.mixed()[0]
    same = on.compared(server, tmp_path, reference, reference)
    head = on.opened(page, same).get_by_role("region", name="Comparison")
    expect(head).to_contain_text("Every tensor that was compared matches.")
    page.keyboard.press("f")
    page.keyboard.press("n")
    assert page.url.endswith(f"/c/{same}")


def test_a_side_nobody_could_read_is_not_called_unpaired(page: Page, server: Server, tmp_path: Path) -> None:
    sides = [dumps.write_folder(tmp_path / side, {"x": np.ones(3), "y": np.ones(4)}) for side in ("ref", "cand")]
    for file in sides[1].iterdir():
        file.write_bytes(b"\x93NUMPY and no more")
    broken = server.compare(*sides)["id"]
    head = on.opened(page, broken).get_by_role("region", name="Comparison")
    expect(head).to_contain_text("Nothing was compared: no pair of tensors could be read.")
    expect(on.count(page, "failed")).to_contain_text("2")
    expect(page.get_by_text("Nothing was paired", exact=True)).to_be_hidden()


def test_a_comparison_that_failed_says_why_and_runs_again(page: Page, server: Server, tmp_path: Path) -> None:
    sides = [dumps.write_folder(tmp_path / side, {"x": np.ones(3)}) for side in ("ref", "cand")]
    (sides[1] / "x.npy").rename(tmp_path / "x.npy")
    entry = server.compare(*sides)
    assert entry["state"] == "failed"
    page.goto(f"/c/{entry['id']}")
    expect(page.get_by_role("alert")).to_contain_text(re.compile("cand"))
    assert axe(page) == []
    (tmp_path / "x.npy").rename(sides[1] / "x.npy")
    page.get_by_role("button", name="Run again").click()
    expect(on.count(page, "match").last).to_contain_text("1")


def test_an_address_without_a_comparison_leads_back(page: Page) -> None:
    page.goto("/c/000000000000")
    expect(page.get_by_text("There is no such comparison")).to_be_visible()
    expect(page.get_by_role("link", name="To the start page", exact=True)).to_be_visible()
    assert axe(page) == []


def test_a_row_that_is_not_there_shows_the_comparison(page: Page, mixed: str) -> None:
    on.opened(page, mixed, "/row/999")
    expect(on.count(page, "mismatch")).to_contain_text("2")
    assert on.lines(page) == []


def test_a_slow_network_shows_that_it_is_loading(page: Page, mixed: str) -> None:
    go = threading.Event()
    waiting: list[Route] = []

    def held(route: Route) -> None:
        if go.is_set():
            route.continue_()
        else:
            waiting.append(route)

    page.route("**/api/comparisons/*/rows", held)
    page.route("**/api/comparisons/*/rows/*", held)
    page.goto(f"/c/{mixed}/row/3")
    expect(page.get_by_role("progressbar", name="Loading the comparison")).to_be_visible()
    while not waiting:
        page.wait_for_timeout(20)
    waiting.pop().continue_()
    expect(page.get_by_role("status").filter(has_text="Loading the row …")).to_be_visible()
    go.set()
    for route in waiting:
        route.continue_()
    expect(on.card(page, "Metrics")).to_be_visible()


def test_a_server_that_is_gone_is_said_and_tried_again(page: Page, mixed: str, console: Console) -> None:
    on.opened(page, mixed, "?group=none")
    page.route("**/api/comparisons/*/rows/*", lambda route: route.abort())
    on.line(page, "layers.1.mlp").click()
    alert = on.table(page).get_by_role("alert")
    expect(alert).to_be_visible()
    assert axe(page) == []
    page.unroute_all()
    alert.get_by_role("button", name="Try again").click()
    expect(on.card(page, "Metrics")).to_be_visible()
    console.complaints[:] = [text for text in console.complaints if "net::ERR_FAILED" not in text]


def test_every_address_can_be_reloaded(page: Page, mixed: str) -> None:
    view = "/row/3?group=verdict&sort=-max_abs&verdict=mismatch,match&rule=custom&atol=2"
    on.opened(page, mixed, view)
    expect(on.line(page, "layers.1.mlp")).to_have_attribute("aria-expanded", "true")
    expect(on.count(page, "mismatch")).to_contain_text("1")
    before = on.lines(page)
    page.reload()
    expect(on.line(page, "layers.1.mlp")).to_have_attribute("aria-expanded", "true")
    expect(on.count(page, "mismatch")).to_contain_text("1")
    assert on.lines(page) == before
    expect(page.get_by_label("Group by")).to_have_value("verdict")
    expect(page.get_by_label("Sort by")).to_have_value("max_abs")


def test_back_goes_through_what_was_opened_and_to_the_start(page: Page, mixed: str) -> None:
    page.goto("/")
    page.get_by_role("link", name=re.compile("ref")).first.click()
    expect(on.table(page)).to_be_visible()
    on.expand(page)
    for key in ("layers.1.mlp", "layers.2.attn"):
        on.line(page, key).click()
        expect(on.line(page, key)).to_have_attribute("aria-expanded", "true")
    page.go_back()
    expect(on.line(page, "layers.2.attn")).to_have_attribute("aria-expanded", "false")
    expect(on.line(page, "layers.1.mlp")).to_have_attribute("aria-expanded", "true")
    page.go_back()
    expect(on.line(page, "layers.1.mlp")).to_have_attribute("aria-expanded", "false")
    page.go_forward()
    expect(on.line(page, "layers.1.mlp")).to_have_attribute("aria-expanded", "true")
    page.go_back()
    page.go_back()
    expect(page.get_by_role("button", name="Compare Models")).to_be_visible()


def test_two_tabs_on_two_comparisons_stay_apart(
    new_context: Callable[..., BrowserContext], server: Server, mixed: str
) -> None:
    context = new_context()
    first, second = context.new_page(), context.new_page()
    other = on.demo(server)
    on.opened(first, mixed, "?group=none")
    on.opened(second, other)
    first.get_by_label("Filter by text").fill("mlp")
    on.line(first, "layers.1.mlp").click()
    on.expand(second)
    second.get_by_role("button", name="Tolerances").click()
    second.get_by_role("radio", name=re.compile("torch's table")).check()
    expect(second).to_have_url(re.compile("rule=torch"))
    expect(first.get_by_role("status").filter(has_text="3 tensors of 7")).to_be_visible()
    expect(on.count(first, "mismatch")).to_contain_text("2")
    assert "rule" not in first.url
    assert "text" not in second.url
    for page, comparison in ((first, mixed), (second, other)):
        page.reload()
        assert f"/c/{comparison}" in page.url
        expect(on.table(page)).to_be_visible()


def test_ten_thousand_rows_are_few_in_the_page_and_all_in_reach(page: Page, server: Server, tmp_path: Path) -> None:
    values = {f"layers.{number // 100}.part_{number % 100}": np.full(2, number, np.float32) for number in range(10_000)}
    for side in ("ref", "cand"):
        np.savez(tmp_path / f"{side}.npz", **values)
    many = on.compared_at_length(server, tmp_path / "ref.npz", tmp_path / "cand.npz")
    on.opened(page, many)
    on.expand(page)
    expect(on.table(page)).to_have_attribute("aria-rowcount", "10101")
    assert len(on.lines(page)) < 100
    on.group(page, "Layer 0").focus()
    page.keyboard.press("End")
    expect(on.line(page, "layers.99.part_99")).to_be_focused()
    expect(on.line(page, "layers.99.part_99")).to_be_in_viewport()
    assert len(on.lines(page)) < 100
    page.keyboard.press("Home")
    expect(on.group(page, "Layer 0")).to_be_focused()
    page.get_by_label("Filter by text").fill("layers.57.part_31")
    expect(page.get_by_role("status").filter(has_text="1 tensor of 10000")).to_be_visible()
    assert on.lines(page) == ["layers.57.part_31"]
