"""Finding elements: the largest differences, an index, values, ranges, NaN, mismatches."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.web import inspecting as on
from tests.web.serving import Server

OURS, THEIRS = on.varied()
MLP = "layers.1.mlp"


@pytest.fixture(scope="module")
def run(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    return on.compared(server, tmp_path_factory.mktemp("varied"), OURS, THEIRS)


def is_at(page: Page, *index: int) -> None:
    text = re.escape(f"[{', '.join(map(str, index))}] ")
    expect(on.chosen(page)).to_have_attribute("title", re.compile(f"^{text}"))
    assert on.sliders(page, len(index)) == list(index)
    expect(on.chosen(page)).to_be_in_viewport()


def look_for(page: Page, what: str, side: str | None = None, **fields: str) -> None:
    view = on.inspector(page)
    view.get_by_role("combobox", name="Search for").select_option(what)
    for name, text in fields.items():
        view.get_by_role("textbox", name=name.capitalize(), exact=True).fill(text)
    if side:
        view.get_by_role("combobox", name="Side to search").select_option(f"in the {side}")
    view.get_by_role("button", name="Search", exact=True).click()


def test_jump_to_max_diff_and_on_to_the_next_and_back(page: Page, server: Server, run: str) -> None:
    on.inspect(page, server, run, MLP)
    apart = np.abs(THEIRS[MLP].astype(float) - OURS[MLP].astype(float)).reshape(-1)
    order = [tuple(map(int, np.unravel_index(at, OURS[MLP].shape))) for at in np.argsort(-apart, kind="stable")[:3]]
    page.get_by_role("button", name="Jump to Max Diff").click()
    is_at(page, *order[0])
    expect(page.get_by_role("button", name="Previous largest")).to_be_disabled()
    for place in (1, 2):
        page.get_by_role("button", name="Next largest").click()
        is_at(page, *order[place])
    page.get_by_role("button", name="Previous largest").click()
    is_at(page, *order[1])
    expect(on.inspector(page)).to_contain_text("Largest difference 2 of 256")


def test_a_nan_on_one_side_is_the_largest_difference(page: Page, server: Server, run: str) -> None:
    on.inspect(page, server, run, "odd")
    page.get_by_role("button", name="Jump to Max Diff").click()
    expect(on.chosen(page)).to_have_attribute("title", re.compile(r"^\[(4, 5|0, 1)\] "))
    page.get_by_role("button", name="Next largest").click()
    expect(on.inspector(page)).to_contain_text("Largest difference 2 of 2")


def test_a_pair_without_difference_says_so(page: Page, server: Server, run: str) -> None:
    on.inspect(page, server, run, "layers.0.mlp")
    page.get_by_role("button", name="Jump to Max Diff").click()
    expect(on.inspector(page)).to_contain_text("No element differs.")


def test_go_to_an_index_or_the_number_of_an_element(page: Page, server: Server, run: str) -> None:
    view = on.inspect(page, server, run, MLP)
    box = view.get_by_role("textbox", name="Go to index")
    box.fill("1, 3, 19, 29")
    box.press("Enter")
    is_at(page, 1, 3, 19, 29)
    box.fill("631")
    view.get_by_role("button", name="Go", exact=True).click()
    is_at(page, 0, 1, 1, 1)
    box.fill("1, 9, 0, 0")
    box.press("Enter")
    expect(view).to_contain_text("Dimension 1 goes from 0 to 3.")
    box.fill("1, 2")
    box.press("Enter")
    expect(view).to_contain_text("An index here has 4 numbers")


def test_a_value_is_searched_for_as_the_type_holds_it(page: Page, server: Server, run: str) -> None:
    view = on.inspect(page, server, run, "ids")
    look_for(page, "a value", "candidate", value=str(2**60 + 2))
    is_at(page, 0, 0)
    look_for(page, "a value", "reference", value=str(2**60 + 2))
    expect(view).to_contain_text("Nothing is found.")
    look_for(page, "a value", "reference", value="many")
    expect(view).to_contain_text("'many' is no number")
    on.inspect(page, server, run, MLP)
    look_for(page, "a value", "reference", value=repr(float(OURS[MLP][1, 1, 2, 3])))
    is_at(page, 1, 1, 2, 3)


def test_a_range_and_what_comes_after(page: Page, server: Server, run: str) -> None:
    on.inspect(page, server, run, MLP)
    values = OURS[MLP].reshape(-1)
    places = np.flatnonzero(values >= 2.5)
    look_for(page, "a range", "reference", **{"from": "2.5"})
    for place in places[:3]:
        is_at(page, *map(int, np.unravel_index(place, OURS[MLP].shape)))
        page.get_by_role("button", name="Find next").click()


@pytest.mark.parametrize(
    ("what", "side", "places"),
    [("NaN", "reference", [(0, 0)]), ("NaN", "candidate", [(0, 0), (4, 5)]), ("Inf", "reference", [(0, 1), (0, 2)])],
)
def test_what_is_not_finite_is_found(
    page: Page, server: Server, run: str, what: str, side: str, places: list[tuple[int, int]]
) -> None:
    view = on.inspect(page, server, run, "odd")
    look_for(page, what, side)
    for place in places:
        is_at(page, *place)
        view.get_by_role("button", name="Find next").click()
    expect(view).to_contain_text("Nothing more is found.")


def test_mismatches_are_found_as_the_verdict_counts_them(page: Page, server: Server, run: str) -> None:
    view = on.inspect(page, server, run, "odd")
    look_for(page, "mismatches")
    for place in ((0, 0), (0, 1), (4, 5)):
        is_at(page, *place)
        view.get_by_role("button", name="Find next").click()
    expect(view).to_contain_text("Nothing more is found.")
