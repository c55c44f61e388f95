"""Pairs and layouts changed by hand: kept in the store, and exported as a map that the command line takes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.web import comparisons as on
from tests.web import dumps
from tests.web.serving import FIRSTDIFF, Server
from tests.web.watching import axe

RANDOM = np.random.default_rng(5)
FIRST, SECOND, THIRD = (RANDOM.standard_normal((6, 6), np.float32) for _ in range(3))
REFERENCE = {"a": FIRST, "b": SECOND, "lonely": THIRD, "other": np.arange(5, dtype=np.float32)}
# of another type, or it would be paired by its place
OTHER_TYPE = np.arange(36, dtype=np.int32).reshape(6, 6)
CANDIDATE = {"a": SECOND, "b": FIRST, "zz": OTHER_TYPE, "yy": np.arange(7, dtype=np.float32)}


@pytest.fixture
def swapped(server: Server, tmp_path: Path) -> str:
    """`a` and `b` have changed places, and two tensors of each side have no partner."""
    return on.compared(server, tmp_path, REFERENCE, CANDIDATE)


def panel(page: Page) -> Locator:
    opened = page.get_by_role("region", name="Pairing by hand")
    if not opened.is_visible():
        page.get_by_role("button", name="Pairing", exact=False).first.click()
    return opened


def open_row(page: Page, comparison: str, key: str) -> Locator:
    """The card of a row that says how it was paired."""
    on.opened(page, comparison, "?group=none")
    on.line(page, key).click()
    card = on.card(page, "Pairing")
    expect(card).to_be_visible()
    return card


def compare(folder: Path, *options: str) -> int:
    """Return the exit code of `firstdiff compare` on the two folders."""
    command = [str(FIRSTDIFF), "compare", "ref", "cand", "--format", "json", *options]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True).returncode


def save(page: Page, file: Path) -> Path:
    with page.expect_download() as download:
        panel(page).get_by_role("link", name="Download as map file").click()
    download.value.save_as(file)
    return file


def test_another_tensor_is_picked_for_a_row(page: Page, swapped: str) -> None:
    open_row(page, swapped, "a").get_by_role("button", name="Pick another candidate…").click()
    dialog = page.get_by_role("dialog", name="Pick a candidate tensor")
    dialog.get_by_role("searchbox", name="Search the candidate's tensors").fill("b")
    dialog.get_by_role("radio", name=re.compile("^b ")).check()
    dialog.get_by_role("button", name="Pair them").click()
    expect(on.line(page, "a")).to_have_accessible_name(re.compile(r"candidate: b\b"))
    expect(on.line(page, "a").get_by_text("match", exact=True)).to_be_visible()
    expect(on.card(page, "Pairing")).to_contain_text("paired by hand")
    expect(on.line(page, "a")).to_have_attribute("aria-expanded", "true")


def test_a_pair_is_dropped_and_the_drop_taken_back(page: Page, swapped: str) -> None:
    open_row(page, swapped, "a").get_by_role("button", name="Drop this pair").click()
    expect(on.count(page, "missing")).to_contain_text("3")
    expect(on.line(page, "a")).to_contain_text("missing")
    taken = panel(page).get_by_role("button", name="Take back: a is not paired with a")
    taken.click()
    expect(on.count(page, "missing")).to_contain_text("2")
    panel(page).get_by_role("button", name="Undo").click()
    expect(on.count(page, "missing")).to_contain_text("3")
    panel(page).get_by_role("button", name="Take back all").click()
    expect(on.count(page, "missing")).to_contain_text("2")


def test_two_leftovers_are_paired(page: Page, swapped: str) -> None:
    on.opened(page, swapped)
    panel(page).get_by_role("button", name="Pair two leftovers…").click()
    dialog = page.get_by_role("dialog", name="Pair two leftovers")
    left, right = (
        dialog.get_by_role("radiogroup", name=f"Tensors of the {side}") for side in ("reference", "candidate")
    )
    expect(left.get_by_role("radio")).to_have_count(2)
    left.get_by_role("radio", name=re.compile("^lonely")).check()
    expect(right.get_by_role("radio")).to_have_count(2)
    # of the two, the one with the shape that was asked for comes first
    expect(right.get_by_role("radio").first).to_have_accessible_name(re.compile("^zz"))
    right.get_by_role("radio", name=re.compile("^zz")).check()
    dialog.get_by_role("button", name="Pair them").click()
    expect(on.count(page, "extra")).to_contain_text("1")
    expect(on.count(page, "missing")).to_contain_text("1")
    on.expand(page)
    expect(on.line(page, "lonely")).to_have_accessible_name(re.compile(r"candidate: zz\b"))


def test_an_opened_row_stays_open_where_an_edit_has_moved_it(page: Page, swapped: str) -> None:
    open_row(page, swapped, "zz")
    before = page.url
    on.line(page, "yy").click()
    panel(page).get_by_role("button", name="Pair two leftovers…").click()
    dialog = page.get_by_role("dialog", name="Pair two leftovers")
    for name in ("other", "yy"):
        dialog.get_by_role("radio", name=re.compile(f"^{name}")).check()
    dialog.get_by_role("button", name="Pair them").click()
    expect(on.count(page, "extra")).to_contain_text("1")
    expect(on.line(page, "zz")).to_have_attribute("aria-expanded", "true")
    expect(on.line(page, "other")).to_have_attribute("aria-expanded", "true")
    expect(on.line(page, "lonely")).to_have_attribute("aria-expanded", "false")
    assert page.url != before
    page.reload()
    expect(on.line(page, "other")).to_have_attribute("aria-expanded", "true")


def test_a_layout_is_accepted(page: Page, server: Server, tmp_path: Path) -> None:
    square = on.compared(server, tmp_path, {"w": FIRST, "x": SECOND}, {"w": np.ascontiguousarray(FIRST.T), "x": SECOND})
    open_row(page, square, "w")
    layout = on.card(page, "Layout")
    expect(layout).to_contain_text("a b -> b a")
    expect(layout).to_contain_text("Both sides were compared as they are, not in this layout.")
    layout.get_by_role("button", name="Accept this layout").click()
    expect(on.count(page, "mismatch")).to_contain_text("0")
    expect(on.line(page, "w")).to_contain_text("a b -> b a")
    assert compare(tmp_path) == 1
    assert compare(tmp_path, "--map", str(save(page, tmp_path / "map.toml"))) == 0


def test_a_recipe_is_stated_and_a_wrong_one_refused(page: Page, server: Server, tmp_path: Path) -> None:
    square = on.compared(server, tmp_path, {"w": FIRST, "x": SECOND}, {"w": np.ascontiguousarray(FIRST.T), "x": SECOND})
    open_row(page, square, "w")
    layout = on.card(page, "Layout")
    layout.get_by_role("textbox", name="Recipe").fill("no such step")
    layout.get_by_role("button", name="State a recipe").click()
    expect(page.get_by_role("status").filter(has_text="the recipe for w: ")).to_be_visible()
    expect(on.count(page, "mismatch")).to_contain_text("1")
    layout.get_by_role("textbox", name="Recipe").fill("a b -> b a")
    page.keyboard.press("Enter")
    expect(on.count(page, "mismatch")).to_contain_text("0")


def test_layers_counted_otherwise_are_paired_by_an_offset(page: Page, server: Server, tmp_path: Path) -> None:
    layers = RANDOM.standard_normal((4, 2, 16)).astype(np.float32)
    named = [(layer, stage, f"{name}") for layer in range(4) for stage, name in enumerate(("query", "key"))]
    reference = {f"{layer}_{name}": layers[layer, stage] for layer, stage, name in named}
    candidate = {f"{layer - 1}_{name}": layers[layer, stage] for layer, stage, name in named if layer}
    shifted = on.compared(server, tmp_path, reference, candidate)
    on.opened(page, shifted, "?group=none")
    expect(on.count(page, "match").last).to_contain_text("0")
    panel(page).get_by_role("spinbutton", name="Layer offset").fill("1")
    page.keyboard.press("Enter")
    expect(on.count(page, "mismatch")).to_contain_text("0")
    expect(on.line(page, "2_key")).to_have_accessible_name(re.compile(r"candidate: 1_key\b"))
    expect(panel(page)).to_contain_text("the candidate's layers are counted +1")


def test_what_was_paired_outlives_the_server_and_is_a_map_for_the_command_line(
    page: Page, server: Server, swapped: str, tmp_path: Path
) -> None:
    card = open_row(page, swapped, "a")
    for key, other in (("a", "b"), ("b", "a")):
        card.get_by_role("button", name="Pick another candidate…").click()
        dialog = page.get_by_role("dialog", name="Pick a candidate tensor")
        dialog.get_by_role("radio", name=re.compile(f"^{other} ")).check()
        dialog.get_by_role("button", name="Pair them").click()
        expect(on.line(page, key)).to_have_accessible_name(re.compile(rf"candidate: {other}\b"))
        on.line(page, key).click()
        if key == "a":
            on.line(page, "b").click()
    expect(on.count(page, "mismatch")).to_contain_text("0")
    server.kill()
    server.start()
    page.reload()
    expect(on.count(page, "mismatch")).to_contain_text("0")
    expect(panel(page)).to_contain_text("a is paired with b")
    expect(panel(page)).to_contain_text("b is paired with a")
    leftovers = ("--allow-missing", "--allow-extra")
    assert compare(tmp_path, *leftovers) == 1
    assert compare(tmp_path, *leftovers, "--map", str(save(page, tmp_path / "map.toml"))) == 0


def test_the_other_tab_follows(new_context: Callable[..., BrowserContext], swapped: str) -> None:
    """A reload of another window shows what was changed in the first."""
    first, second = (new_context().new_page() for _ in range(2))
    on.opened(second, swapped)
    open_row(first, swapped, "a").get_by_role("button", name="Drop this pair").click()
    expect(on.count(first, "missing")).to_contain_text("3")
    second.reload()
    expect(on.count(second, "missing")).to_contain_text("3")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_panel_and_dialogs_are_sound(new_context: Callable[..., BrowserContext], swapped: str, scheme: str) -> None:
    page = new_context(color_scheme=scheme, viewport={"width": 360, "height": 800}).new_page()
    on.opened(page, swapped)
    panel(page).get_by_role("button", name="Pair two leftovers…").click()
    expect(page.get_by_role("radio", name=re.compile("^lonely"))).to_be_visible()
    assert axe(page) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Pair two leftovers")).to_be_hidden()
    assert axe(page) == []


def test_a_pair_is_made_with_the_keyboard_alone(page: Page, swapped: str) -> None:
    on.opened(page, swapped, "?group=none")
    press = page.keyboard.press
    press("n")
    expect(on.line(page, "a")).to_be_focused()
    press("Enter")
    expect(on.card(page, "Pairing")).to_be_visible()
    button = page.get_by_role("button", name="Pick another candidate…")
    for _ in range(40):
        press("Tab")
        if button.evaluate("(button) => button === document.activeElement"):
            break
    press("Enter")
    search = page.get_by_role("searchbox", name="Search the candidate's tensors")
    expect(search).to_be_visible()
    search.focus()
    page.keyboard.type("b")
    only = page.get_by_role("radio", name=re.compile("^b "))
    expect(page.get_by_role("dialog").get_by_role("radio")).to_have_count(1)
    press("Tab")
    expect(only).to_be_focused()
    press("Space")
    expect(only).to_be_checked()
    press("Tab")
    press("Tab")
    expect(page.get_by_role("button", name="Pair them")).to_be_focused()
    press("Enter")
    expect(on.line(page, "a")).to_have_accessible_name(re.compile(r"candidate: b\b"))
    expect(on.line(page, "a")).to_be_focused()


def test_one_trace_has_nothing_to_pair(page: Page, server: Server, tmp_path: Path) -> None:
    entry = server.compare(dumps.write_folder(tmp_path / "alone", REFERENCE))
    on.opened(page, entry["id"], "?group=none")
    page.keyboard.press("r")
    expect(page.get_by_role("region", name="Pairing by hand")).to_be_hidden()
