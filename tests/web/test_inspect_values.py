"""Raw values: sliders, grid, list, exact figures of one element, held to numpy."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.web import inspecting as on
from tests.web.serving import Server
from tests.web.watching import axe, overflows

OURS, THEIRS = on.varied()
MLP = "layers.1.mlp"


@pytest.fixture(scope="module")
def run(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("varied")
    return on.compared(server, folder, OURS, THEIRS)


def shown(page: Page, *index: int) -> list[str]:
    cell = on.cell(page, *index)
    cell.wait_for()  # all_inner_texts does not wait for the values
    return cell.locator("span").all_inner_texts()


def test_a_row_offers_its_raw_values(page: Page, server: Server, run: str) -> None:
    page.goto(f"/c/{run}/row/{on.row_of(server, run, MLP)}")
    button = page.get_by_role("button", name="Inspect Raw Tensor Values")
    button.click()
    shapes = on.inspector(page).locator("dl").first
    expect(shapes).to_contain_text("Reference[2, 4, 20, 30] float32")
    expect(shapes).to_contain_text("Compared as[2, 4, 20, 30]")
    expect(shapes).to_contain_text("Recipeidentity")
    expect(on.grid(page)).to_be_visible()
    expect(page).to_have_url(re.compile("view=values"))
    button.click()
    expect(on.inspector(page)).to_be_hidden()
    assert "view=" not in page.url


def test_every_cell_of_the_grid_is_the_value_of_numpy(page: Page, server: Server, run: str) -> None:
    on.inspect(page, server, run, MLP)
    expect(on.grid(page).get_by_role("gridcell")).to_have_count(16 * 12)
    texts = on.grid(page).get_by_role("gridcell").locator("span").all_inner_texts()
    found = np.array(on.numbers(texts)).reshape(16, 12, 2)
    wanted = np.stack([OURS[MLP][0, 0, :16, :12], THEIRS[MLP][0, 0, :16, :12]], axis=2)
    assert np.allclose(found, wanted, rtol=1e-5)


def test_sliders_and_fields_choose_the_plane(page: Page, server: Server, run: str) -> None:
    on.inspect(page, server, run, MLP)
    for dim in range(4):
        expect(on.slider(page, dim)).to_be_visible()
        expect(on.field(page, dim)).to_be_visible()
    on.slider(page, 1).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(on.field(page, 1)).to_have_value("2")
    on.field(page, 0).fill("1")
    page.keyboard.press("Tab")
    expect(on.cell(page, 1, 2, 3, 4)).to_be_visible()
    assert math.isclose(float(shown(page, 1, 2, 3, 4)[0]), OURS[MLP][1, 2, 3, 4], rel_tol=1e-5)
    on.slider(page, 3).fill("29")
    expect(on.cell(page, 1, 2, 0, 29)).to_be_visible()
    expect(on.inspector(page).get_by_role("spinbutton", name="Start along dimension 3")).to_have_value("18")


def test_start_and_count_choose_the_window(page: Page, server: Server, run: str) -> None:
    on.inspect(page, server, run, MLP)
    view = on.inspector(page)
    view.get_by_role("spinbutton", name="Start along dimension 2").fill("5")
    page.keyboard.press("Tab")
    view.get_by_role("spinbutton", name="Count along dimension 2").fill("3")
    page.keyboard.press("Tab")
    expect(on.grid(page).get_by_role("gridcell")).to_have_count(3 * 12)
    expect(on.cell(page, 0, 0, 7, 0)).to_be_visible()
    expect(on.cell(page, 0, 0, 4, 0)).to_be_hidden()


def test_any_two_dimensions_are_rows_and_columns(page: Page, server: Server, run: str) -> None:
    on.inspect(page, server, run, MLP)
    view = on.inspector(page)
    view.get_by_role("combobox", name="Rows").select_option("3")
    view.get_by_role("combobox", name="Columns").select_option("1")
    expect(on.grid(page).get_by_role("gridcell")).to_have_count(16 * 4)
    rows = on.grid(page).get_by_role("row")
    texts = rows.nth(1).get_by_role("gridcell").locator("span:first-child").all_inner_texts()
    assert np.allclose(on.numbers(texts), OURS[MLP][0, :, 0, 0], rtol=1e-5)


def test_one_dimension_is_a_list_with_all_figures(page: Page, server: Server, run: str) -> None:
    on.inspect(page, server, run, MLP)
    view = on.inspector(page)
    view.get_by_role("combobox", name="Show as").select_option("1-D list")
    view.get_by_role("combobox", name="Along").select_option("2")
    lines = on.grid(page).get_by_role("row")
    expect(lines).to_have_count(21)
    on.field(page, 0).fill("1")
    on.field(page, 1).fill("2")
    on.field(page, 3).fill("25")
    page.keyboard.press("Tab")
    expect(lines.nth(18).get_by_role("gridcell").nth(2)).to_have_text(re.compile("^5"))
    cells = on.numbers(lines.nth(18).get_by_role("gridcell").all_inner_texts())
    r, c = OURS[MLP][1, 2, 17, 25], THEIRS[MLP][1, 2, 17, 25]
    ulp = abs(float(c) - float(r)) / np.spacing(np.exp2(np.floor(np.log2(abs(r)))).astype(np.float32))
    wanted = [r, c, float(c) - float(r), abs((float(c) - float(r)) / float(r)), ulp]
    assert np.allclose(cells, wanted, rtol=1e-5)


def test_flattened_values_come_in_c_order(page: Page, server: Server, run: str) -> None:
    on.inspect(page, server, run, MLP)
    view = on.inspector(page)
    view.get_by_role("combobox", name="Show as").select_option("Flattened")
    view.get_by_role("spinbutton", name="Start").fill("4700")
    page.keyboard.press("Tab")
    view.get_by_role("spinbutton", name="Count").fill("1000")
    page.keyboard.press("Tab")
    expect(on.grid(page).get_by_role("gridcell")).to_have_count(100)
    texts = on.grid(page).get_by_role("gridcell").locator("span:last-child").all_inner_texts()
    assert np.allclose(on.numbers(texts), THEIRS[MLP].reshape(-1)[4700:], rtol=1e-5)


def test_eight_dimensions_have_eight_sliders(page: Page, server: Server, run: str) -> None:
    on.inspect(page, server, run, "eight")
    page.get_by_role("button", name="Jump to Max Diff").click()
    expect(on.chosen(page)).to_have_attribute("title", re.compile(r"^\[1, 2, 1, 1, 1, 2, 3, 4\] "))
    assert on.sliders(page, 8) == [1, 2, 1, 1, 1, 2, 3, 4]


@pytest.mark.parametrize("equal_nan", [False, True])
def test_two_nan_are_a_small_difference_where_they_were_let_match(
    page: Page, server: Server, tmp_path: Path, equal_nan: bool
) -> None:
    arrays = {"x": np.array([[1.0, np.nan], [2.0, 3.0]], np.float32)}
    comparison = on.compared(server, tmp_path, arrays, arrays, options={"equal_nan": equal_nan})
    on.inspect(page, server, comparison, "x")
    border = on.cell(page, 0, 1).evaluate("cell => getComputedStyle(cell).borderTopColor")
    red, green, _ = (int(part) for part in re.findall(r"\d+", border)[:3])
    assert (green > red) is equal_nan


@pytest.mark.parametrize(
    ("key", "index"),
    [
        (MLP, (0, 0, 3, 4)),
        ("odd", (0, 0)),
        ("odd", (0, 1)),
        ("odd", (4, 5)),
        ("odd", (1, 1)),
        ("ids", (0, 0)),
        ("ids", (2, 3)),
        ("flags", (0, 0)),
        ("bf16", (1, 2)),
        ("fp8", (1, 2)),
        ("complex", (1, 1)),
        ("one", ()),
    ],
)
@pytest.mark.parametrize("how", ["hover", "focus"])
def test_one_element_is_told_exactly(
    page: Page, server: Server, run: str, key: str, index: tuple[int, ...], how: str
) -> None:
    on.inspect(page, server, run, key)
    getattr(on.cell(page, *index), how)()
    ours, theirs = OURS[key][index], THEIRS[key][index]
    assert on.told(page, "Index").startswith(f"[{', '.join(map(str, index))}]")
    assert same(on.told(page, "Reference"), ours)
    assert same(on.told(page, "Candidate"), theirs)
    difference, relative, ulp = (on.told(page, name) for name in ("Difference", "Relative", "ULPs"))
    if np.asarray(ours).dtype.kind in "iub":
        assert (int(difference), ulp) == (int(theirs) - int(ours), "–")
        return
    number = complex if np.iscomplexobj(ours) else float
    apart = number(theirs) - number(ours)
    if same(on.told(page, "Candidate"), ours):
        assert (difference, relative) == ("0", "0")
    elif not np.isfinite(apart):
        assert difference == str(apart)
        assert (relative, ulp) == ("–", "–")
    else:
        assert math.isclose(float(difference), abs(apart) if number is complex else apart, rel_tol=1e-5)
        assert math.isclose(float(relative), abs(apart) / abs(number(ours)), rel_tol=1e-5)
    if np.isfinite(apart) and number is not complex:
        eps = float(ml_dtypes.finfo(np.asarray(ours).dtype).eps)
        step = eps * 2.0 ** math.floor(math.log2(abs(float(ours))))
        assert math.isclose(float(ulp), abs(apart) / step, rel_tol=1e-5, abs_tol=0)


def same(text: str, value: np.generic) -> bool:
    """The text gives back every bit of the value."""
    if isinstance(value, np.bool_):
        return text == str(bool(value))
    if value.dtype.kind in "iu":
        return int(text) == int(value)
    found = np.asarray(complex(text) if value.dtype.kind == "c" else float(text)).astype(value.dtype)
    return bool(found == value) or (bool(np.isnan(found)) and bool(np.isnan(value)))


def test_colours_tell_sign_and_difference(page: Page, server: Server, run: str) -> None:
    on.inspect(page, server, run, MLP, more="&at=1.2.17_4_16.25_18_12")
    values = OURS[MLP][1, 2, 4:20, 18:30]
    style = "cell => getComputedStyle(cell)"

    def colours(cell_index: tuple[int, int], name: str) -> list[int]:
        found = on.cell(page, 1, 2, 4 + cell_index[0], 18 + cell_index[1]).evaluate(f"{style}.{name}")
        return [int(part) for part in re.findall(r"\d+", found)[:3]]

    least, most = (tuple(map(int, np.unravel_index(at, values.shape))) for at in (values.argmin(), values.argmax()))
    red, _, blue = colours((least[0], least[1]), "backgroundColor")
    assert blue > red + 40
    red, _, blue = colours((most[0], most[1]), "backgroundColor")
    assert red > blue + 40
    red, green, _ = colours((13, 7), "borderTopColor")
    assert red > green + 40, "the largest difference has an orange border"
    on.inspect(page, server, run, "layers.0.mlp")
    border = on.cell(page, 0, 0, 0, 0).evaluate(f"{style}.borderTopColor")
    red, green, _ = (int(part) for part in re.findall(r"\d+", border)[:3])
    assert green > red + 40, "no difference has a green border"


def test_other_layouts_are_shown_as_compared_and_as_they_lie(page: Page, server: Server, run: str) -> None:
    view = on.inspect(page, server, run, "turned")
    shapes = view.locator("dl").first
    for text in ("[12, 5, 7] float32", "[1, 5, 12, 7] float32", "Compared as[12, 5, 7]", "Recipe1 a b c -> b a c"):
        expect(shapes).to_contain_text(text)
    on.field(page, 0).fill("11")
    page.keyboard.press("Tab")
    expect(on.cell(page, 11, 4, 6)).to_be_visible()
    assert np.allclose(on.numbers(shown(page, 11, 4, 6)), OURS["turned"][11, 4, 6], rtol=1e-5)


def test_a_layout_that_only_would_fit_is_not_the_one_shown(page: Page, server: Server, run: str) -> None:
    view = on.inspect(page, server, run, "square")
    expect(view.locator("dl").first).to_contain_text("Recipeidentity")
    assert np.allclose(on.numbers(shown(page, 1, 4)), [OURS["square"][1, 4], OURS["square"][4, 1]], rtol=1e-5)


def test_a_tensor_of_one_side_and_an_empty_one(page: Page, server: Server, run: str) -> None:
    on.inspect(page, server, run, "alone")
    on.cell(page, 4, 5).hover()
    assert float(on.told(page, "Reference")) == pytest.approx(float(OURS["alone"][4, 5]))
    expect(page.get_by_role("button", name="Jump to Max Diff")).to_be_hidden()
    on.inspect(page, server, run, "new")
    on.cell(page, 2, 4).hover()
    assert float(on.told(page, "Candidate")) == pytest.approx(float(THEIRS["new"][2, 4]))
    expect(on.inspect(page, server, run, "none")).to_contain_text("This tensor has no elements.")


def test_sides_that_nothing_relates_are_looked_at_one_by_one(page: Page, server: Server, run: str) -> None:
    view = on.inspect(page, server, run, "unlike")
    expect(on.cell(page, 3, 8)).to_be_visible()
    view.get_by_role("combobox", name="Look at").select_option("the candidate")
    expect(on.cell(page, 2, 6)).to_be_visible()
    assert np.allclose(on.numbers(shown(page, 2, 6)), THEIRS["unlike"][2, 6], rtol=1e-5)


def test_a_failed_row_shows_the_side_that_can_be_read(page: Page, server: Server, tmp_path: Path) -> None:
    arrays = {"x": OURS["broken"], "y": OURS["odd"]}
    sides = on.write_trace(tmp_path / "ref.trace", arrays), on.write_trace(tmp_path / "cand.trace", arrays)
    (sides[1] / "000000.npy").write_bytes(b"\x93NUMPY and no more")
    comparison = server.compare(*sides)["id"]
    on.inspect(page, server, comparison, "x")
    on.cell(page, 2, 3).hover()
    assert float(on.told(page, "Reference")) == pytest.approx(float(OURS["broken"][2, 3]))


def test_the_address_holds_pair_view_and_slice(page: Page, server: Server, run: str) -> None:
    on.inspect(page, server, run, MLP)
    page.get_by_role("button", name="Jump to Max Diff").click()
    expect(page).to_have_url(re.compile(r"at=1\.2\.17_.*\.25_"))
    page.goto(page.url)
    expect(on.chosen(page)).to_have_attribute("title", re.compile(r"^\[1, 2, 17, 25\] "))
    assert on.sliders(page, 4) == [1, 2, 17, 25]
    on.inspector(page).get_by_role("combobox", name="Show as").select_option("Flattened")
    expect(page).to_have_url(re.compile("at=flat_"))
    page.reload()
    expect(on.chosen(page)).to_have_attribute("title", re.compile(r"^\[1, 2, 17, 25\] "))


@pytest.mark.parametrize("address", ["at=9.9.9_0_5.9_0_5", "at=nonsense", "at=0", "at=flat_99999999_0_16"])
def test_an_address_that_does_not_fit_shows_what_does(page: Page, server: Server, run: str, address: str) -> None:
    on.inspect(page, server, run, MLP, more=f"&{address}")
    expect(on.grid(page)).to_be_visible()
    expect(on.chosen(page)).to_have_count(1)


def test_sliders_of_several_rows_move_together(page: Page, server: Server, run: str) -> None:
    page.goto(f"/c/{run}/row/{on.row_of(server, run, 'layers.0.mlp')}?view=values&group=none")
    expect(on.grid(page)).to_be_visible()
    page.get_by_role("checkbox", name="Link sliders across rows").check()
    page.get_by_role("row").filter(has=page.get_by_text(MLP, exact=True)).first.click()
    expect(on.inspector(page)).to_have_count(2)
    first, second = on.inspector(page).nth(0), on.inspector(page).nth(1)
    first.get_by_role("spinbutton", name="Dimension 1", exact=True).fill("3")
    page.keyboard.press("Tab")
    for view, key in ((first, "layers.0.mlp"), (second, MLP)):
        expect(view.get_by_role("slider", name="Dimension 1", exact=True)).to_have_value("3")
        cell = view.get_by_title(re.compile(r"^\[0, 3, 2, 4\] "))
        assert np.allclose(float(cell.locator("span").last.inner_text()), THEIRS[key][0, 3, 2, 4], rtol=1e-5)


def test_a_row_that_opens_slowly_follows_linked_sliders(page: Page, server: Server, run: str) -> None:
    first, second = on.row_of(server, run, "layers.0.mlp"), on.row_of(server, run, MLP)
    waiting: list[Route] = []

    def hold(route: Route) -> None:
        waiting.append(route)

    page.route(re.compile(rf"/rows/{second}/inspect"), hold)
    page.goto(f"/c/{run}/row/{first}?view=values&group=none")
    expect(on.grid(page)).to_be_visible()
    expect(page).to_have_url(re.compile("at="))
    page.get_by_role("checkbox", name="Link sliders across rows").check()
    page.get_by_role("row").filter(has=page.get_by_text(MLP, exact=True)).first.click()
    expect(on.inspector(page)).to_have_count(2)
    page.get_by_role("spinbutton", name="Dimension 1", exact=True).fill("3")
    page.keyboard.press("Tab")
    waiting[0].continue_()
    expect(on.inspector(page).nth(1).get_by_role("slider", name="Dimension 1", exact=True)).to_have_value("3")


def test_all_of_it_works_from_the_keyboard(page: Page, server: Server, run: str) -> None:
    on.inspect(page, server, run, MLP)
    on.tab(page, "Values").focus()
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Jump to Max Diff":
            break
    page.keyboard.press("Enter")
    expect(on.chosen(page)).to_have_attribute("title", re.compile(r"^\[1, 2, 17, 25\] "))
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.getAttribute('role')") == "gridcell":
            break
    assert on.told(page, "Index").startswith("[1, 2, 17, 25]")
    for key in ["ArrowDown"] * 2 + ["ArrowRight"] * 4:
        page.keyboard.press(key)
    expect(on.cell(page, 1, 2, 19, 29)).to_be_focused()
    assert same(on.told(page, "Candidate"), THEIRS[MLP][1, 2, 19, 29])


def test_the_walk_goes_on_beyond_the_window(page: Page, server: Server, run: str) -> None:
    on.inspect(page, server, run, MLP)
    on.cell(page, 0, 0, 0, 11).focus()
    page.keyboard.press("ArrowRight")
    expect(on.cell(page, 0, 0, 0, 12)).to_be_focused()
    on.cell(page, 0, 0, 0, 12).press("ArrowUp")
    expect(on.cell(page, 0, 0, 0, 12)).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("arrangement", ["2-D grid", "1-D list"])
def test_axe_finds_nothing_and_nothing_overflows(
    new_context: Callable[..., BrowserContext], server: Server, run: str, scheme: str, width: int, arrangement: str
) -> None:
    page = new_context(color_scheme=scheme, viewport={"width": width, "height": 900}).new_page()
    on.inspect(page, server, run, MLP, more="&at=1.2.17_4_16.25_18_12")
    on.inspector(page).get_by_role("combobox", name="Show as").select_option(arrangement)
    expect(on.chosen(page)).to_be_visible()
    assert axe(page) == []
    assert not overflows(page)
