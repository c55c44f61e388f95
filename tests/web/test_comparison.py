"""The comparison page: the floating head, the error over depth, and the table of rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

import firstdiff as fd
from tests.web import comparisons as on
from tests.web.serving import Server
from tests.web.watching import axe, overflows


@pytest.fixture(scope="module")
def mixed(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    return on.compared(server, tmp_path_factory.mktemp("mixed"), *on.mixed())


@pytest.fixture(scope="module")
def demo(server: Server) -> str:
    return on.demo(server)


def test_the_head_says_who_is_compared_how_it_went_and_where_it_began(page: Page, server: Server, demo: str) -> None:
    first = on.first_divergence(server, demo)
    head = on.opened(page, demo).get_by_role("region", name="Comparison")
    expect(head.get_by_role("heading")).to_contain_text("reference")
    expect(head.get_by_role("heading")).to_contain_text("candidate")
    expect(on.count(page, "mismatch")).to_contain_text("69")
    expect(head.get_by_role("link", name=first["key"])).to_be_visible()
    for words in (
        "all compared",
        "norm.eps",
        "set eps of layers.2.ln_1 to 1e-05",
        "Introduced here: ",
        "spread over the",
    ):
        expect(head.get_by_text(words)).to_be_visible()


def test_the_first_divergence_leads_to_its_row(page: Page, server: Server, demo: str) -> None:
    first = on.first_divergence(server, demo)
    on.opened(page, demo).get_by_role("link", name=first["key"]).click()
    expect(page).to_have_url(re.compile(rf"/c/{demo}/row/{first['pair']}$"))
    row = on.line(page, first["key"])
    expect(row).to_have_attribute("aria-expanded", "true")
    expect(row).to_be_focused()
    expect(row).to_be_in_viewport(ratio=1)


def test_the_head_stays_in_sight(page: Page, demo: str) -> None:
    on.opened(page, demo)
    on.expand(page)
    page.mouse.wheel(0, 4000)
    expect(page.get_by_role("button", name="Expand All")).not_to_be_in_viewport()
    expect(page.get_by_role("region", name="Comparison")).to_be_in_viewport(ratio=1)
    expect(page.get_by_role("columnheader", name="Max abs")).to_be_in_viewport()


def test_groups_are_layers_in_order_and_closed_at_first(page: Page, demo: str) -> None:
    on.opened(page, demo)
    groups = on.table(page).locator('[role=row][aria-level="1"]')
    expect(groups).to_have_count(6)
    titles = [text.split("\n")[1] for text in groups.all_inner_texts()]
    assert titles == ["Before the layers", "Layer 0", "Layer 1", "Layer 2", "Layer 3", "After the layers"]
    assert on.lines(page) == []
    expect(on.group(page, "Layer 2")).to_contain_text("31 mismatch")


def test_all_groups_open_and_close(page: Page, mixed: str) -> None:
    on.opened(page, mixed)
    on.expand(page)
    expect(on.line(page, "layers.1.mlp")).to_be_visible()
    assert len(on.lines(page)) == 7
    page.get_by_role("button", name="Collapse All").click()
    expect(on.line(page, "layers.1.mlp")).to_be_hidden()
    on.group(page, "Layer 1").click()
    expect(on.line(page, "layers.1.mlp")).to_be_visible()
    assert on.lines(page) == ["layers.1.attn", "layers.1.mlp"]


def test_a_row_says_verdict_shape_recipe_and_figures(page: Page, mixed: str) -> None:
    on.opened(page, mixed)
    on.expand(page)
    wrong = on.line(page, "layers.1.mlp")
    metrics = next(pair for pair in fd.compare(*on.mixed()).pairs if pair.key == "layers.1.mlp").metrics
    assert metrics is not None
    figures = (f"{metrics.max_abs:.3g}", f"{metrics.rel_l2:.3g}", f"{metrics.mismatched} / {metrics.elements}")
    for text in ("mismatch", "[4, 6, 8]", "float32", *figures, "introduced"):
        expect(wrong).to_contain_text(text)
    expect(wrong.get_by_role("img", name="× what is allowed")).to_be_visible()
    expect(on.line(page, "layers.1.attn")).to_contain_text("a b c -> b a c")
    expect(on.line(page, "layers.1.attn")).to_contain_text("[4, 6, 8] → [6, 4, 8]")
    expect(on.line(page, "layers.0.mlp")).to_contain_text("missing")
    expect(on.line(page, "new")).to_contain_text("extra")


@pytest.mark.parametrize(
    ("by", "titles"),
    [
        ("name", ["attn", "mlp", "new"]),
        ("verdict", ["Mismatch", "Missing", "Extra", "Match"]),
        ("nothing", []),
    ],
)
def test_rows_are_grouped_otherwise(page: Page, mixed: str, by: str, titles: list[str]) -> None:
    on.opened(page, mixed).get_by_label("Group by").select_option(by)
    on.expand(page)
    expect(on.line(page, "layers.1.mlp")).to_be_visible()
    heads = on.table(page).locator('[role=row][id^="group-"]')
    assert [text.split("\n")[1] for text in heads.all_inner_texts()] == titles


def test_rows_are_sorted_by_any_metric_and_back(page: Page, mixed: str) -> None:
    on.opened(page, mixed, "?group=none")
    order = on.lines(page)
    page.get_by_label("Sort by").select_option("max abs")
    expect(page).to_have_url(re.compile("sort=-max_abs"))
    assert on.lines(page)[0] == "layers.1.mlp"
    heading = page.get_by_role("columnheader", name="Max abs")
    expect(heading).to_have_attribute("aria-sort", "descending")
    heading.get_by_role("button").click()
    expect(heading).to_have_attribute("aria-sort", "ascending")
    assert on.lines(page)[-2:] != order[-2:]
    heading.get_by_role("button").click()
    expect(page).not_to_have_url(re.compile("sort="))
    assert on.lines(page) == order


@pytest.mark.parametrize(
    ("use", "left"),
    [
        (lambda page: page.get_by_label("Filter by text").fill("MLP layers.1"), ["layers.1.mlp"]),
        (lambda page: on.count(page, "extra").click(), ["new"]),
        (
            lambda page: page.get_by_label("Layer", exact=True).select_option("layer 2"),
            ["layers.2.attn", "layers.2.mlp"],
        ),
        (lambda page: page.get_by_label("Stage").select_option("attn"), [f"layers.{n}.attn" for n in range(3)]),
        (lambda page: page.get_by_label("Layer", exact=True).select_option("outside layers"), ["new"]),
    ],
    ids=["text", "verdict", "layer", "stage", "outside layers"],
)
def test_a_filter_leaves_what_fits_and_a_reload_keeps_it(
    page: Page, mixed: str, use: Callable[[Page], None], left: list[str]
) -> None:
    on.opened(page, mixed)
    use(page)
    expect(page.get_by_role("status").filter(has_text=" of 7")).to_be_visible()
    assert on.lines(page) == left
    page.reload()
    expect(on.line(page, left[0])).to_be_visible()
    assert on.lines(page) == left
    page.get_by_role("button", name="Clear filters").click()
    expect(page.get_by_role("status").filter(has_text="7 tensors")).to_be_visible()
    assert "?" not in page.url


def test_a_type_is_filtered_where_there_are_several(page: Page, demo: str) -> None:
    on.opened(page, demo).get_by_label("Type").select_option("bool")
    expect(page.get_by_role("status").filter(has_text="8 tensors of 204")).to_be_visible()


def test_a_filter_that_nothing_fits_says_so(page: Page, mixed: str) -> None:
    on.opened(page, mixed).get_by_label("Filter by text").fill("nowhere to be found")
    expect(page.get_by_text("No tensor fits the filter")).to_be_visible()
    page.get_by_role("button", name="Clear filters").last.click()
    expect(on.table(page)).to_be_visible()
    expect(page.get_by_label("Filter by text")).to_have_value("")


def test_the_error_over_depth_is_walked_with_the_keyboard(page: Page, server: Server, demo: str) -> None:
    first = on.first_divergence(server, demo)
    chart = on.opened(page, demo).get_by_role("slider", name="Place in depth")
    expect(chart.locator("canvas")).to_be_visible()
    expect(chart).to_have_attribute(
        "aria-valuetext", re.compile(rf"^{re.escape(first['key'])}: error 0.000188, allowed [\d.e-]+, mismatch$")
    )
    chart.focus()
    page.keyboard.press("ArrowLeft")
    expect(chart).to_have_attribute("aria-valuetext", re.compile(r"^layers\.2\.ln_1:in\.0: .*, match$"))
    page.keyboard.press("Enter")
    expect(on.line(page, "layers.2.ln_1:in.0")).to_have_attribute("aria-expanded", "true")


def test_a_click_in_the_chart_goes_to_the_row(page: Page, demo: str) -> None:
    chart = on.opened(page, demo).get_by_role("slider", name="Place in depth")
    expect(chart.locator("canvas")).to_be_visible()
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 40, box["y"] + 60)
    key = (chart.get_attribute("aria-valuetext") or "").partition(": error")[0]
    page.mouse.down()
    page.mouse.up()
    expect(on.line(page, key)).to_have_attribute("aria-expanded", "true")


def test_a_row_in_the_address_is_opened_and_back_closes_it(page: Page, mixed: str) -> None:
    on.opened(page, mixed, "/row/3")
    expect(on.line(page, "layers.1.mlp")).to_have_attribute("aria-expanded", "true")
    on.line(page, "layers.1.attn").click()
    expect(page).to_have_url(re.compile("/row/2$"))
    page.go_back()
    expect(page).to_have_url(re.compile("/row/3$"))
    expect(on.line(page, "layers.1.attn")).to_have_attribute("aria-expanded", "false")
    on.line(page, "layers.1.mlp").click()
    expect(page).to_have_url(re.compile(f"/c/{mixed}$"))
    expect(on.line(page, "layers.1.mlp")).to_have_attribute("aria-expanded", "false")


def test_a_row_that_a_filter_hides_is_shown_all_the_same(page: Page, mixed: str) -> None:
    on.opened(page, mixed, "?verdict=extra")
    page.get_by_role("link", name="layers.1.mlp").click()
    expect(on.line(page, "layers.1.mlp")).to_have_attribute("aria-expanded", "true")


def test_everything_is_done_by_keys_alone(page: Page, mixed: str) -> None:
    on.opened(page, mixed)
    press = page.keyboard.press
    press("e")
    expect(on.line(page, "layers.0.attn")).to_be_visible()
    press("n")
    expect(on.line(page, "layers.0.mlp")).to_be_focused()
    press("n")
    expect(on.line(page, "layers.1.mlp")).to_be_focused()
    press("p")
    expect(on.line(page, "layers.0.mlp")).to_be_focused()
    press("j")
    expect(on.group(page, "Layer 1")).to_be_focused()
    press("k")
    press("Enter")
    expect(on.line(page, "layers.0.mlp")).to_have_attribute("aria-expanded", "true")
    press("Enter")
    expect(on.line(page, "layers.0.mlp")).to_have_attribute("aria-expanded", "false")
    press("ArrowLeft")
    expect(on.group(page, "Layer 0")).to_be_focused()
    press("ArrowLeft")
    expect(on.group(page, "Layer 0")).to_have_attribute("aria-expanded", "false")
    press("End")
    expect(on.line(page, "new")).to_be_focused()
    press("/")
    expect(page.get_by_label("Filter by text")).to_be_focused()
    page.keyboard.type("attn")
    expect(page.get_by_role("status").filter(has_text="3 tensors of 7")).to_be_visible()
    press("Escape")
    expect(on.table(page).locator(":focus")).to_have_count(1)
    press("c")
    expect(on.line(page, "layers.0.attn")).to_be_hidden()
    press("f")
    expect(on.line(page, "layers.1.mlp")).to_have_attribute("aria-expanded", "true")


def test_one_line_of_the_table_takes_the_tab_key(page: Page, mixed: str) -> None:
    on.opened(page, mixed)
    on.expand(page)
    expect(on.table(page).locator('[role=row][tabindex="0"]')).to_have_count(1)
    on.line(page, "layers.1.mlp").focus()
    expect(on.table(page).locator('[role=row][tabindex="0"]')).to_have_count(1)
    expect(on.line(page, "layers.1.mlp")).to_have_attribute("tabindex", "0")
    outline = on.line(page, "layers.1.mlp").evaluate("(row) => getComputedStyle(row).outlineStyle")
    page.keyboard.press("ArrowDown")
    assert on.table(page).locator(":focus").evaluate("(row) => getComputedStyle(row).outlineStyle") == "solid", outline


# how many elements have drawn a row while the table was scrolled, and how many did at a time
SCROLLED = """async () => {
  const [seen, many] = [new Set(), []];
  const painted = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  for (let step = 0; step < 30; step += 1) {
    const rows = [...document.querySelectorAll('[role=treegrid] [role=row][id^="row-"]')];
    rows.forEach((row) => seen.add(row));
    many.push(rows.length);
    scrollBy(0, step < 15 ? 300 : -300);
    await painted();
  }
  return [seen.size, Math.max(...many)];
}"""
IN_ORDER = """() => {
  const rows = [...document.querySelectorAll('[role=treegrid] .list [role=row][id]')];
  const places = rows.map((row) => Number(row.ariaRowIndex));
  return places.length > 10 && places.every((place, at) => place > (places[at - 1] ?? 0));
}"""


def test_few_elements_draw_all_rows_in_their_order(page: Page, demo: str) -> None:
    on.opened(page, demo, "?group=none")
    seen, most = page.evaluate(SCROLLED)
    assert seen <= most + 10, "of two hundred rows"
    page.wait_for_function(IN_ORDER)
    keys = on.lines(page)
    assert len(set(keys)) == len(keys)
    page.mouse.wheel(0, 2000)
    page.wait_for_function("() => scrollY > 1000")
    page.wait_for_function(IN_ORDER)


def test_focus_and_what_is_open_follow_the_row_and_not_its_element(page: Page, demo: str) -> None:
    on.opened(page, demo, "?group=none")
    keys = on.lines(page)
    on.line(page, keys[2]).click()
    expect(on.card(page, "Statistics")).to_be_visible()
    on.line(page, keys[1]).focus()
    page.mouse.wheel(0, 5000)
    expect(on.line(page, keys[1])).not_to_be_in_viewport()
    expect(on.line(page, keys[2])).to_have_count(0)
    assert page.locator('[role=row][aria-expanded="true"]').count() == 0
    expect(on.line(page, keys[1])).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(on.line(page, keys[2])).to_be_focused()
    expect(on.line(page, keys[2])).to_be_in_viewport()
    expect(on.line(page, keys[2])).to_have_attribute("aria-expanded", "true")
    expect(on.card(page, "Statistics")).to_have_count(1)


@pytest.mark.parametrize(("key", "title"), [("t", "Tolerances"), ("r", "Pairing by hand")])
def test_a_panel_comes_into_sight_wherever_its_key_is_pressed(
    new_context: Callable[..., BrowserContext], mixed: str, key: str, title: str
) -> None:
    page = new_context(viewport={"width": 360, "height": 640}).new_page()
    on.opened(page, mixed)
    for pressed in ("e", "j", "End"):
        page.keyboard.press(pressed)
    expect(on.line(page, "new")).to_be_focused()
    page.keyboard.press(key)
    panel = page.get_by_role("region", name=title)
    expect(panel.locator(":focus")).to_be_in_viewport()
    panel.get_by_role("button", name="Close").click()
    expect(on.line(page, "new")).to_be_focused()
    expect(on.line(page, "new")).to_be_in_viewport()


def test_keys_and_legend_are_listed(page: Page, mixed: str) -> None:
    on.opened(page, mixed)
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    for does in ("Next line", "Expand All", "Next row that does not match", "Filter by text", "Twelve lines at a time"):
        expect(keys.get_by_text(does, exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Legend").click()
    expect(page.get_by_role("dialog", name="Legend").get_by_text("only in the candidate")).to_be_visible()


@pytest.mark.parametrize("width", [360, 1280])
def test_names_counts_and_the_first_divergence_stay_in_sight(
    new_context: Callable[..., BrowserContext], demo: str, width: int
) -> None:
    page = new_context(viewport={"width": width, "height": 640}).new_page()
    on.opened(page, demo)
    page.keyboard.press("e")
    page.keyboard.press("j")
    page.keyboard.press("End")
    head = page.get_by_role("region", name="Comparison", exact=True)
    assert head.evaluate("head => head.getBoundingClientRect().top") == 0
    for part in (".reference .label", ".candidate .label", ".first .key", ".counts .match", ".counts .mismatch"):
        expect(head.locator(part)).to_be_in_viewport(ratio=1)
    assert head.evaluate("head => head.getBoundingClientRect().height") < 160


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 820, 1280, 3840])
def test_it_fits_every_window_and_axe_finds_nothing(
    new_context: Callable[..., BrowserContext], demo: str, width: int, scheme: str
) -> None:
    page = new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    on.opened(page, demo)
    page.get_by_role("link", name="layers.2.ln_1").click()
    expect(on.card(page, "Metrics")).to_be_visible()
    assert not overflows(page)
    assert axe(page) == []


def test_reports_are_downloaded(page: Page, mixed: str, tmp_path: Path) -> None:
    on.opened(page, mixed)
    for label, begins in (("JSON", '{"schema'), ("Markdown", "#"), ("JUnit", "<?xml")):
        page.get_by_role("button", name="Download").click()
        with page.expect_download() as download:
            page.get_by_role("menuitem", name=label).click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        text = path.read_text(encoding="utf-8")
        assert text.replace("\n", "").replace(" ", "").startswith(begins), (label, text[:80])
