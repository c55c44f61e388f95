"""Other tolerances on the page: every verdict follows at once, and the data is not read again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

import firstdiff as fd
from tests.web import comparisons as on
from tests.web.serving import Server
from tests.web.watching import axe


@pytest.fixture(scope="module")
def demo(server: Server) -> str:
    return on.demo(server)


@pytest.fixture(scope="module")
def mixed(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    return on.compared(server, tmp_path_factory.mktemp("mixed"), *on.mixed())


def panel(page: Page) -> Locator:
    opened = page.get_by_role("region", name="Tolerances", exact=True)
    if not opened.is_visible():
        page.get_by_role("button", name="Tolerances").click()
    return opened


def test_a_looser_k_turns_mismatches_into_matches(page: Page, demo: str) -> None:
    on.opened(page, demo)
    panel(page).get_by_role("textbox", name="K", exact=True).fill("2000")
    expect(on.count(page, "mismatch")).not_to_contain_text("69")
    assert int(on.count(page, "mismatch").inner_text().split()[1]) < 69
    expect(page.get_by_text("Judged by the tolerance tried on this page")).to_be_visible()
    expect(page).to_have_url(re.compile(r"rule=default&k=2000"))


def test_the_verdicts_are_those_of_a_comparison_with_that_tolerance(page: Page, mixed: str) -> None:
    expected = fd.compare(*on.mixed(), atol=0.5, rtol=0.0).summary
    on.opened(page, mixed, "?group=none")
    panel(page).get_by_label("atol and rtol").check()
    panel(page).get_by_label("atol", exact=True).fill("0.5")
    expect(panel(page).get_by_role("status")).to_have_text(f"{expected.match} matches, {expected.mismatch} mismatches")
    panel(page).get_by_label("atol", exact=True).fill("1.5")
    looser = fd.compare(*on.mixed(), atol=1.5, rtol=0.0).summary
    assert (looser.match, looser.mismatch) != (expected.match, expected.mismatch)
    expect(on.count(page, "match")).to_contain_text(str(looser.match))
    expect(on.line(page, "layers.1.mlp")).to_contain_text("match")
    expect(on.line(page, "layers.1.mlp")).not_to_contain_text("introduced")


def test_the_first_divergence_follows(page: Page, mixed: str) -> None:
    head = on.opened(page, mixed).get_by_role("region", name="Comparison")
    expect(head.get_by_role("link")).to_have_text("layers.1.mlp")
    panel(page).get_by_label("atol and rtol").check()
    panel(page).get_by_label("atol", exact=True).fill("2")
    expect(head.get_by_role("link")).to_have_text("layers.2.attn")
    page.get_by_role("button", name="As compared").first.click()
    expect(head.get_by_role("link")).to_have_text("layers.1.mlp")
    assert "rule" not in page.url


def test_an_opened_row_follows(page: Page, mixed: str) -> None:
    on.opened(page, mixed, "/row/3")
    expect(on.card(page, "Tolerance")).to_contain_text("by the form of the difference")
    panel(page).get_by_label("torch's table").check()
    expect(on.card(page, "Tolerance")).to_contain_text("1e-5 + 1.3e-6 × |reference|")
    panel(page).get_by_label("Default").check()
    panel(page).get_by_role("textbox", name="K", exact=True).fill("1e9")
    expect(on.card(page, "What was found")).not_to_contain_text("values differ")


def test_rules_by_name_in_toml(page: Page, mixed: str) -> None:
    on.opened(page, mixed, "?group=none")
    panel(page).get_by_label("TOML", exact=False).first.check()
    text = panel(page).get_by_label("Tolerances as TOML")
    text.fill("[[tolerances]]\nname = 'layers\\.1\\..*'\natol = 3")
    expect(on.line(page, "layers.1.mlp")).not_to_contain_text("mismatch")
    text.fill("[[tolerances]]\nname = 'layers")
    expect(panel(page).get_by_role("alert")).to_contain_text("TOML")


@pytest.mark.parametrize("typed", ["-4", "plenty"])
def test_a_number_that_is_none_is_refused_in_words(page: Page, mixed: str, typed: str) -> None:
    on.opened(page, mixed)
    panel(page).get_by_role("textbox", name="K", exact=True).fill(typed)
    expect(panel(page).get_by_role("alert")).to_have_text("K takes a number from 0 up")
    expect(on.count(page, "mismatch")).to_contain_text("2")


def test_what_would_let_every_pair_match_is_offered_and_does(page: Page, demo: str) -> None:
    on.opened(page, demo)
    offered = panel(page).get_by_role("button", name=re.compile(r"^(K|atol|rtol) [\d.,e-]+$"))
    expect(offered.first).to_be_visible()
    for name in offered.all_inner_texts():
        panel(page).get_by_role("button", name=name, exact=True).click()
        expect(on.count(page, "mismatch")).to_contain_text("0")
        page.get_by_role("button", name="As compared").first.click()
        expect(on.count(page, "mismatch")).to_contain_text("69")


def test_no_tolerance_helps_where_a_nan_is_in_the_way(page: Page, mixed: str) -> None:
    on.opened(page, mixed)
    expect(panel(page)).to_contain_text("No tolerance would let every pair match.")


def test_a_link_shows_the_same_verdicts(page: Page, mixed: str) -> None:
    on.opened(page, mixed, "?rule=custom&atol=2")
    expect(on.count(page, "mismatch")).to_contain_text("1")
    expect(panel(page).get_by_label("atol", exact=True)).to_have_value("2")


def test_tolerances_are_saved_as_a_file_that_says_the_same(page: Page, mixed: str, tmp_path: Path) -> None:
    on.opened(page, mixed)
    panel(page).get_by_label("atol and rtol").check()
    panel(page).get_by_label("atol", exact=True).fill("1.5")
    expect(on.count(page, "mismatch")).to_contain_text("1")
    with page.expect_download() as download:
        panel(page).get_by_role("button", name="Save as TOML").click()
    file = tmp_path / "tolerances.toml"
    download.value.save_as(file)
    assert fd.compare(*on.mixed(), tolerances=file).summary.mismatch == 1


def test_the_panel_is_sound_and_gives_the_focus_back(page: Page, mixed: str) -> None:
    on.opened(page, mixed)
    page.get_by_role("button", name="Tolerances").focus()
    page.keyboard.press("Enter")
    expect(panel(page).get_by_label("Default")).to_be_focused()
    assert axe(page) == []
    panel(page).get_by_role("button", name="Close tolerances").click()
    expect(page.get_by_role("button", name="Tolerances")).to_be_focused()
