"""Manual Mapping: two sides laid side by side by hand, held to numpy."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.web import inspecting as on
from tests.web.serving import Server, wait_until

OURS, THEIRS = on.varied()


@pytest.fixture(scope="module")
def run(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    return on.compared(server, tmp_path_factory.mktemp("varied"), OURS, THEIRS)


def side(page: Page, name: str) -> Locator:
    return on.inspector(page).get_by_role("group", name=re.compile(f"^{name} "))


def place(page: Page, name: str, dim: int) -> Locator:
    return side(page, name).get_by_role("spinbutton", name=f"{name} dimension {dim}")


def press(page: Page, name: str) -> None:
    on.inspector(page).get_by_role("button", name=name).click()


def figure(page: Page, name: str) -> str:
    entries = on.inspector(page).locator(".found dl > div")
    return entries.filter(has=page.get_by_text(name, exact=True)).locator("dd").inner_text()


def statistics(page: Page, name: str) -> list[float]:
    row = on.inspector(page).get_by_role("row", name=re.compile(f"^{name} "))
    row.wait_for()
    return on.numbers(row.get_by_role("cell").all_inner_texts())


def test_live_statistics_of_both_slices(page: Page, server: Server, run: str) -> None:
    on.inspect(page, server, run, "layers.1.mlp", "mapping")
    place(page, "Reference", 0).fill("1")
    place(page, "Candidate", 0).fill("1")
    for name in ("Reference", "Candidate"):
        place(page, name, 1).fill("2")
        page.keyboard.press("Tab")
    ours, theirs = (arrays["layers.1.mlp"][1, 2].astype(float) for arrays in (OURS, THEIRS))
    expect(on.inspector(page)).to_contain_text(f"{ours.max():.6g}")
    expect(on.inspector(page)).to_contain_text(f"{theirs.max():.6g}")
    for name, of in (("Mean", np.mean), ("Deviation", np.std), ("Minimum", np.min), ("Maximum", np.max)):
        assert np.allclose(statistics(page, name), [of(ours), of(theirs)], rtol=1e-4, atol=1e-7)
    assert math.isclose(float(figure(page, "Max difference")), np.abs(theirs - ours).max(), rel_tol=1e-3)
    cosine = float((ours * theirs).sum() / np.linalg.norm(ours) / np.linalg.norm(theirs))
    assert math.isclose(float(figure(page, "Cosine")), cosine, rel_tol=1e-6)
    assert figure(page, "Identical") == "no"
    expect(on.inspector(page)).to_contain_text("Close: the same data with an error in it")


def test_a_pair_that_did_not_align_can_be_mapped(page: Page, server: Server, run: str) -> None:
    view = on.inspect(page, server, run, "unlike", "mapping")
    expect(view).to_contain_text("Unrelated, as far as these slices tell")
    expect(view.get_by_role("button", name="Back to automatic")).to_be_disabled()
    assert figure(page, "Differing") == "21 of 21"


def test_without_auto_update_nothing_moves_before_it_is_applied(page: Page, server: Server, run: str) -> None:
    view = on.inspect(page, server, run, "layers.0.mlp", "mapping")
    expect(view).to_contain_text("Identical: every element is the same.")
    view.get_by_role("checkbox", name="Auto-update").uncheck()
    place(page, "Reference", 1).fill("3")
    page.keyboard.press("Tab")
    page.wait_for_timeout(300)
    assert figure(page, "Identical") == "yes"
    press(page, "Apply Mapping")
    expect(view).to_contain_text("Unrelated")
    press(page, "Copy Reference to Candidate")
    expect(place(page, "Candidate", 1)).to_have_value("3")
    press(page, "Apply Mapping")
    expect(view).to_contain_text("Identical: every element is the same.")
    press(page, "Reset All to 0")
    expect(place(page, "Reference", 1)).to_have_value("0")
    expect(place(page, "Candidate", 1)).to_have_value("0")
    press(page, "Back to automatic")
    expect(on.grid(page)).to_be_visible()


def test_the_right_axes_are_found_by_hand_and_kept(page: Page, server: Server, run: str) -> None:
    view = on.inspect(page, server, run, "square", "mapping")
    side(page, "Candidate").get_by_role("combobox", name="Rows").select_option("1")
    expect(view).to_contain_text("Identical: every element is the same.")
    view.get_by_role("button", name="Keep “a b -> b a” as this pair’s recipe").click()
    expect(page.get_by_text("a b -> b a").first).to_be_visible()

    def kept() -> bool:
        layouts = server.ask("GET", f"/comparisons/{run}/edits")["layouts"]
        return layouts == [{"key": "square", "recipe": "a b -> b a"}]

    wait_until(kept, "the recipe is kept")


def test_common_mappings_are_tried(page: Page, server: Server, run: str) -> None:
    view = on.inspect(page, server, run, "turned", "mapping")
    press(page, "Try Common Mappings")
    found = view.get_by_role("region", name="Common mappings")
    expect(found.get_by_role("listitem").first).to_contain_text("fits")
    expect(found).to_contain_text("1 a b c -> b a c")
    expect(found.get_by_role("button", name="Keep as recipe").first).to_be_visible()
