"""Heat maps, distributions, depth, audio, the third trace, exports and pictures, held to numpy."""

from __future__ import annotations

import base64
import io
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.web import inspecting as on
from tests.web.serving import Server
from tests.web.watching import axe, overflows

OURS, THEIRS = on.varied()
MLP = "layers.1.mlp"
PNG = b"\x89PNG\r\n"
# colours that only the keys of a picture have in full, the marks at clicks, or the loudest of a spectrogram
KEYS = {
    "values": ["224,112,16"],
    "heat": ["196,0,148"],
    "distribution": ["106,82,0"],
    "mapping": ["20,84,164"],
    "depth": ["106,82,0"],
    "audio": ["138,82,0", "252,253,191"],
}
COLOURS = """async (picture) => {
  const bytes = Uint8Array.from(atob(picture), (letter) => letter.charCodeAt(0));
  const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, image.width, image.height);
  const found = new Set();
  for (let at = 0; at < data.length; at += 4) found.add(`${data[at]},${data[at + 1]},${data[at + 2]}`);
  return [...found];
}"""


@pytest.fixture(scope="module")
def run(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("varied")
    third = on.write_trace(folder / "third.trace", on.third())
    return on.compared(server, folder, OURS, THEIRS, third={"path": str(third)})


def heat(page: Page, title: str) -> Locator:
    return on.inspector(page).get_by_role("application", name=re.compile(f"^{title}: "))


# the pixels of a copy: reading the page's own canvas would make the browser complain
COPIED = """const copy = Object.assign(document.createElement('canvas'), {width: canvas.width, height: canvas.height});
    const context = copy.getContext('2d', {willReadFrequently: true});
    context.drawImage(canvas, 0, 0);"""


def painted(page: Page, title: str, row: int, column: int, shape: tuple[int, int]) -> tuple[int, int, int]:
    """The colour in the middle of a cell."""
    canvas = heat(page, title).locator("canvas")
    expect(canvas).to_have_attribute("width", re.compile(r"\d"))
    script = """
        const [x, y] = [Math.floor(across * canvas.width), Math.floor(down * canvas.height)];
        return [...context.getImageData(x, y, 1, 1).data].slice(0, 3);"""
    red, green, blue = canvas.evaluate(
        f"(canvas, [down, across]) => {{{COPIED}{script}}}", [(row + 0.5) / shape[0], (column + 0.5) / shape[1]]
    )
    return red, green, blue


def where(page: Page) -> Locator:
    return on.inspector(page).locator("p.where")


def test_three_maps_share_a_crosshair(page: Page, server: Server, run: str) -> None:
    on.inspect(page, server, run, "odd", "heat")
    for title in ("Reference", "Candidate", "Third", "Difference"):
        expect(heat(page, title)).to_be_visible()
    painted(page, "Difference", 0, 0, (6, 9))
    heat(page, "Reference").focus()
    for key in ["ArrowDown"] * 2 + ["ArrowRight"] * 3:
        page.keyboard.press(key)
    value = OURS["odd"][2, 3]
    expect(where(page)).to_contain_text(f"[2, 3]: reference {float(f'{value:.6g}')}"[:22])
    for title in ("Reference", "Candidate", "Difference"):
        assert heat(page, title).locator(".line").count() == 2
    page.keyboard.press("Enter")
    expect(on.chosen(page)).to_have_attribute("title", re.compile(r"^\[2, 3\] "))


def test_what_is_not_finite_has_colours_of_its_own(page: Page, server: Server, run: str) -> None:
    on.inspect(page, server, run, "odd", "heat")
    nan, inf, minus = (painted(page, "Reference", 0, column, (6, 9)) for column in range(3))
    legend = on.inspector(page).get_by_role("list", name="Colours of what is not finite").locator(".swatch")
    shown = [legend.nth(place).evaluate("mark => getComputedStyle(mark).backgroundColor") for place in range(3)]
    assert [f"rgb({r}, {g}, {b})" for r, g, b in (nan, inf, minus)] == shown
    assert painted(page, "Candidate", 0, 1, (6, 9)) == minus
    assert painted(page, "Difference", 4, 5, (6, 9)) == nan
    assert len({nan, inf, minus, painted(page, "Difference", 3, 3, (6, 9))}) == 4


def test_complex_and_whole_numbers_differ_where_their_sizes_do_not(page: Page, server: Server, run: str) -> None:
    on.inspect(page, server, run, "complex", "heat")
    assert painted(page, "Difference", 1, 1, (3, 4)) != painted(page, "Difference", 0, 0, (3, 4))
    on.inspect(page, server, run, "ids", "heat")
    assert painted(page, "Difference", 0, 0, (3, 5)) != painted(page, "Difference", 1, 1, (3, 5))


def test_range_and_scale_are_chosen(page: Page, server: Server, run: str) -> None:
    view = on.inspect(page, server, run, MLP, "heat")
    bar = view.get_by_role("figure", name="Colours of the reference")
    most = max(np.abs(side[0, 0]).max() for side in (OURS[MLP], THEIRS[MLP], on.third()[MLP]))
    expect(bar).to_contain_text(f"{most:.3g}")
    linear = painted(page, "Reference", 1, 1, (20, 30))
    view.get_by_role("checkbox", name="One range for all sides").uncheck()
    expect(bar).to_contain_text(f"{np.abs(OURS[MLP][0, 0]).max():.3g}")
    view.get_by_role("combobox", name="Scale").select_option("symmetric log")
    expect(bar).to_contain_text(re.compile("0.0"))
    assert painted(page, "Reference", 1, 1, (20, 30)) != linear


def test_maps_zoom_and_pan_together(page: Page, server: Server, run: str) -> None:
    view = on.inspect(page, server, run, MLP, "heat")
    painted(page, "Reference", 0, 0, (20, 30))
    heat(page, "Candidate").focus()
    page.keyboard.press("+")
    page.keyboard.press("+")
    heat(page, "Reference").hover(position={"x": 2, "y": 2})
    expect(where(page)).to_contain_text("[0, 0, 0, 0]")
    box = heat(page, "Reference").bounding_box()
    assert box is not None
    page.mouse.down()
    page.mouse.move(box["x"] - 10_000, box["y"] - 10_000)
    page.mouse.up()
    heat(page, "Difference").hover(position={"x": box["width"] - 4, "y": box["height"] - 4})
    expect(where(page)).to_contain_text("[0, 0, 19, 29]")
    view.get_by_role("button", name="Show all").click()
    heat(page, "Difference").hover(position={"x": 2, "y": 2})
    expect(where(page)).to_contain_text("[0, 0, 0, 0]")
    heat(page, "Difference").hover(position={"x": box["width"] - 4, "y": box["height"] - 4})
    expect(where(page)).to_contain_text("[0, 0, 19, 29]")
    page.mouse.wheel(0, -2000)
    heat(page, "Difference").hover(position={"x": 2, "y": 2})
    expect(where(page)).not_to_contain_text("[0, 0, 0, 0]")


def test_another_view_keeps_the_zoom_and_shows_no_old_slice(page: Page, server: Server, run: str) -> None:
    on.inspect(page, server, run, MLP, "heat")
    painted(page, "Reference", 0, 0, (20, 30))
    heat(page, "Candidate").focus()
    for key in ("+", "+"):
        page.keyboard.press(key)
    on.tab(page, "Values").click()
    on.field(page, 1).fill("2")
    page.keyboard.press("Tab")
    expect(on.cell(page, 0, 2, 0, 0)).to_be_visible()
    on.tab(page, "Heat maps").click()
    box = heat(page, "Reference").bounding_box()
    assert box is not None
    heat(page, "Reference").hover(position={"x": box["width"] - 4, "y": box["height"] - 4})
    value = f"{float(f'{OURS[MLP][0, 2, 4, 7]:.6g}')}"
    expect(where(page)).to_contain_text(f"[0, 2, 4, 7]: reference {value}"[:26])


def test_moving_a_slider_keeps_the_zoom(page: Page, server: Server, run: str) -> None:
    on.inspect(page, server, run, MLP, "heat")
    painted(page, "Reference", 0, 0, (20, 30))
    heat(page, "Reference").focus()
    page.keyboard.press("End")
    for key in ("+", "+", "+"):
        page.keyboard.press(key)
    on.field(page, 1).fill("2")
    page.keyboard.press("Tab")
    box = heat(page, "Reference").bounding_box()
    assert box is not None
    heat(page, "Reference").hover(position={"x": box["width"] - 3, "y": box["height"] - 3})
    expect(where(page)).to_contain_text("[0, 2, ")
    expect(where(page)).not_to_contain_text("[0, 2, 19, 29]")


def test_one_wrong_cell_of_millions_is_seen(page: Page, server: Server, tmp_path: Path) -> None:
    ours = np.zeros((2100, 2300), np.float32)
    theirs = ours.copy()
    theirs[1234, 567] = -2
    comparison = on.compared(server, tmp_path, {"x": ours}, {"x": theirs})
    on.inspect(page, server, comparison, "x", "heat")
    painted(page, "Difference", 0, 0, (1, 1))
    script = """
        const {data} = context.getImageData(0, 0, canvas.width, canvas.height);
        let blue = 0;
        for (let at = 0; at < data.length; at += 4) if (data[at + 2] > data[at] + 60) blue++;
        return blue;"""
    assert heat(page, "Difference").locator("canvas").evaluate(f"canvas => {{{COPIED}{script}}}") >= 1
    expect(heat(page, "Difference").get_by_title("The largest difference in view")).to_be_visible()
    heat(page, "Difference").hover()
    expect(where(page)).to_contain_text("cells that share a pixel")


def test_histograms_count_what_numpy_counts(page: Page, server: Server, run: str) -> None:
    view = on.inspect(page, server, run, "odd", "distribution")
    counted = view.get_by_role("list", name="Elements counted")
    expect(counted).to_contain_text("Reference: 51 finite, 1 NaN, 2 infinite")
    expect(counted).to_contain_text("Candidate: 50 finite, 2 NaN, 2 infinite")
    finite = np.concatenate([side["odd"][np.isfinite(side["odd"])] for side in (OURS, THEIRS)])
    plot = view.get_by_role("img", name=re.compile("^Histogram of the values, from "))
    low, high = re.findall(r"-?\d[\d.e-]*", plot.get_attribute("aria-label") or "")
    assert math.isclose(float(low), finite.min(), rel_tol=1e-3)
    assert math.isclose(float(high), finite.max(), rel_tol=1e-3)


def test_the_slice_or_the_whole_tensor_is_counted_and_scattered(page: Page, server: Server, run: str) -> None:
    view = on.inspect(page, server, run, MLP, "distribution")
    expect(view.get_by_role("list", name="Elements counted")).to_contain_text("Reference: 4,800 finite")
    view.get_by_role("radio", name="the slice that is shown").check()
    expect(view.get_by_role("list", name="Elements counted")).to_contain_text("Reference: 600 finite")
    expect(
        view.get_by_role("img", name=re.compile("^Candidate and third over reference, 600 elements"))
    ).to_be_visible()


@pytest.mark.parametrize("dim", range(4))
def test_profiles_name_the_worst_index(page: Page, server: Server, run: str, dim: int) -> None:
    view = on.inspect(page, server, run, MLP, "distribution")
    view.get_by_role("combobox", name="Profile along").select_option(str(dim))
    apart = np.abs(THEIRS[MLP].astype(float) - OURS[MLP].astype(float))
    lines = apart.max(axis=tuple(other for other in range(4) if other != dim))
    expect(view).to_contain_text(f"Largest at index {int(lines.argmax())}: {lines.max():.4g}.")


def test_one_element_through_all_layers(page: Page, server: Server, run: str) -> None:
    view = on.inspect(page, server, run, MLP, "depth", "&at=1.2.17_4_16.25_18_12")
    expect(view.get_by_role("img", name="The element [1, 2, 17, 25] over 3 layers")).to_be_visible()
    rows = view.get_by_role("table").get_by_role("row")
    rows.nth(3).wait_for()
    for layer in range(3):
        key = f"layers.{layer}.mlp"
        cells = on.numbers(rows.nth(layer + 1).get_by_role("cell").all_inner_texts())
        wanted = [side[key][1, 2, 17, 25] for side in (OURS, THEIRS, on.third())]
        assert np.allclose(cells[:3], wanted, rtol=1e-5)
    on.field(page, 3).fill("7")
    page.keyboard.press("Tab")
    expect(view.get_by_role("img", name="The element [1, 2, 17, 7] over 3 layers")).to_be_visible()
    view.get_by_role("button", name="layers.2.mlp").click()
    expect(page).to_have_url(re.compile(rf"/row/{on.row_of(server, run, 'layers.2.mlp')}\?.*view=depth"))


def test_sound_is_drawn_marked_and_played(page: Page, server: Server, run: str) -> None:
    view = on.inspect(page, server, run, "wave", "audio")
    expect(view).to_contain_text("2 clicks")
    expect(view).to_contain_text("sample 2,000 (0.25 s)")
    for side in ("reference", "candidate", "difference"):
        expect(view.get_by_role("img", name=f"Waveform of the {side}, 1 seconds")).to_be_visible()
        picture = view.get_by_role("img", name=f"Spectrogram of the {side}")
        expect(picture).to_be_visible()
        page.wait_for_function("picture => picture.naturalWidth > 0", arg=picture.element_handle())
        player = view.get_by_label(f"Play {side}")
        seconds = player.evaluate(
            """async audio => {
                audio.load();
                await new Promise(done => audio.addEventListener('loadedmetadata', done, {once: true}));
                return audio.duration;
            }"""
        )
        assert math.isclose(seconds, 1.0, abs_tol=0.01)
    assert view.get_by_title("Click at sample 2000").count() == 2


def test_the_third_trace_stands_beside_the_two(page: Page, server: Server, run: str) -> None:
    view = on.inspect(page, server, run, MLP)
    expect(view.locator("dl").first).to_contain_text("Third[2, 4, 20, 30] float32")
    on.cell(page, 0, 0, 0, 1).hover()
    assert on.told(page, "Third") == "7"
    on.tab(page, "Heat maps").click()
    expect(heat(page, "Difference of the third")).to_be_visible()
    on.tab(page, "Distribution").click()
    expect(view.get_by_role("img", name="Candidate and third over reference, 2400 elements")).to_be_visible()
    on.inspect(page, server, run, "turned")
    on.cell(page, 0, 3, 4).hover()
    assert float(on.told(page, "Third")) == float(on.told(page, "Reference"))


@pytest.mark.parametrize("side", ["reference", "candidate", "third"])
def test_a_slice_is_exported(page: Page, server: Server, run: str, side: str) -> None:
    arrays = {"reference": OURS, "candidate": THEIRS, "third": on.third()}[side]
    on.inspect(page, server, run, MLP, more="&at=1.2.17_4_16.25_18_12")
    expect(on.grid(page)).to_be_visible()
    wanted = arrays[MLP][1, 2, 4:20, 18:30]
    assert np.array_equal(np.load(io.BytesIO(exported(page, f"Export {side} slice as .npy"))), wanted)
    text = exported(page, f"Export {side} slice as .csv").decode()
    assert np.array_equal(np.loadtxt(io.StringIO(text), delimiter=",").astype(np.float32), wanted)


def exported(page: Page, item: str) -> bytes:
    on.inspector(page).get_by_role("button", name="Export and copy").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name=item).click()
    return download.value.path().read_bytes()


@pytest.mark.parametrize(
    ("key", "arrangement", "wanted"),
    [
        (MLP, "2-D grid", THEIRS[MLP][0, 0, :16, :12]),
        (MLP, "Flattened", THEIRS[MLP].reshape(-1)[:256]),
        ("turned", "2-D grid", OURS["turned"][0]),
        ("one", "Flattened", THEIRS["one"].reshape(1)),
    ],
)
def test_a_slice_is_copied_as_python_that_runs(
    new_context: Callable[..., BrowserContext], server: Server, run: str, key: str, arrangement: str, wanted: np.ndarray
) -> None:
    page = new_context(permissions=["clipboard-read", "clipboard-write"]).new_page()
    on.inspect(page, server, run, key)
    on.inspector(page).get_by_role("combobox", name="Show as").select_option(arrangement)
    expect(on.grid(page)).to_be_visible()
    on.inspector(page).get_by_role("button", name="Export and copy").click()
    page.get_by_role("menuitem", name="Copy candidate slice as Python").click()
    expect(page.get_by_text("The Python code is copied.")).to_be_visible()
    *lines, last = page.evaluate("navigator.clipboard.readText()").strip().splitlines()
    names: dict[str, object] = {}
    exec("\n".join(lines), names)
    assert np.array_equal(eval(last, names), wanted)


@pytest.mark.parametrize("view", ["values", "heat", "distribution", "mapping", "depth", "audio"])
def test_every_view_can_be_saved_as_a_picture(page: Page, server: Server, run: str, view: str) -> None:
    found = on.inspect(page, server, run, "wave" if view == "audio" else MLP, view)
    button = found.get_by_role("button", name="Save as PNG")
    expect(button).to_be_visible()
    if view != "values":
        expect(found.locator("canvas").first).to_have_attribute("width", re.compile(r"\d"))
    if view == "audio":
        pictures = found.get_by_role("img", name=re.compile("^Spectrogram"))
        for place in range(3):
            page.wait_for_function("picture => picture.naturalWidth > 0", arg=pictures.nth(place).element_handle())
    with page.expect_download() as download:
        button.click()
    assert download.value.suggested_filename.endswith(".png")
    picture = download.value.path().read_bytes()
    assert picture.startswith(PNG)
    colours = page.evaluate(COLOURS, base64.b64encode(picture).decode())
    for colour in KEYS[view]:
        assert colour in colours, (view, colour)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["heat", "distribution", "mapping", "depth", "audio"])
def test_axe_finds_nothing_and_nothing_overflows(
    new_context: Callable[..., BrowserContext], server: Server, run: str, scheme: str, view: str
) -> None:
    width = 360 if scheme == "light" else 1280
    page = new_context(color_scheme=scheme, viewport={"width": width, "height": 900}).new_page()
    found = on.inspect(page, server, run, "wave" if view == "audio" else MLP, view)
    expect(found.get_by_role("button", name="Save as PNG")).to_be_visible()
    assert axe(page) == []
    assert not overflows(page)
