"""The start page: give two runs, one, or none, and a comparison opens."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.web import dumps
from tests.web.serving import Server
from tests.web.watching import Console, axe, overflows

OPENED = re.compile(r"/c/[^/]+$")


def entry_opened(page: Page, server: Server) -> dict[str, object]:
    """The entry of the comparison that the page went to, once it is over."""
    expect(page).to_have_url(OPENED)
    found: dict[str, object] = server.settled(page.url.rpartition("/")[2])
    return found


def compare(page: Page) -> None:
    page.get_by_role("button", name="Compare Models").click()


def unfold(page: Page, title: str) -> None:
    page.locator("summary", has_text=title).click()


def drop(page: Page, on: str, *paths: Path) -> None:
    """A real drop of files and folders by the browser's own events."""
    box = page.get_by_role("region", name=on).bounding_box()
    assert box is not None
    session = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        place = {"x": box["x"] + 20, "y": box["y"] + 20}
        session.send("Input.dispatchDragEvent", {"type": kind, "data": data, **place})


def test_two_archives_are_sent_and_compared(page: Page, server: Server, tmp_path: Path) -> None:
    page.goto("/")
    page.get_by_label("Reference files").set_input_files(
        dumps.write_zip(tmp_path / "good.zip", dumps.files(dumps.tensors()))
    )
    page.get_by_label("Candidate files").set_input_files(
        dumps.write_zip(tmp_path / "port.zip", dumps.files(dumps.tensors(wrong_from=1)))
    )
    compare(page)
    entry = entry_opened(page, server)
    assert (entry["state"], entry["verdict"]) == ("done", "mismatch")
    assert entry["summary"] == {
        "match": 3,
        "mismatch": 6,
        "missing": 0,
        "extra": 0,
        "failed": 0,
        "elements": 1728,
        "coverage": 1.0,
        "rewritten": 0,
        "inconclusive": 0,
    }


def test_many_files_are_one_side(page: Page, server: Server, tmp_path: Path) -> None:
    reference = dumps.write_folder(tmp_path / "a", dumps.tensors())
    candidate = dumps.write_folder(tmp_path / "b", dumps.tensors())
    page.goto("/")
    page.get_by_label("Reference files").set_input_files(sorted(reference.iterdir()))
    card = page.get_by_role("region", name="Reference")
    expect(card.get_by_text("9 files")).to_be_visible()
    expect(card.get_by_text("layers.0.attn.npy", exact=True)).to_be_visible()
    page.get_by_label("Candidate files").set_input_files(sorted(candidate.iterdir()))
    compare(page)
    entry = entry_opened(page, server)
    assert (entry["verdict"], entry["summary"]["match"]) == ("match", 9)  # type: ignore[index]


def test_a_folder_is_chosen(page: Page, server: Server, tmp_path: Path) -> None:
    page.goto("/")
    page.get_by_label("Reference folder").set_input_files(dumps.write_folder(tmp_path / "dump_a", dumps.tensors()))
    expect(page.get_by_role("region", name="Reference").get_by_text("dump_a/", exact=True)).to_be_visible()
    page.get_by_label("Candidate folder").set_input_files(dumps.write_folder(tmp_path / "dump_b", dumps.tensors()))
    compare(page)
    assert entry_opened(page, server)["verdict"] == "match"


def test_folders_and_archives_are_dropped(page: Page, server: Server, tmp_path: Path) -> None:
    nested = dumps.write_folder(tmp_path / "run" / "first", dumps.tensors()).parent
    page.goto("/")
    drop(page, "Reference", nested)
    expect(page.get_by_role("region", name="Reference").get_by_text("9 files")).to_be_visible()
    drop(page, "Candidate", dumps.write_zip(tmp_path / "port.zip", dumps.files(dumps.tensors())))
    compare(page)
    entry = entry_opened(page, server)
    assert (entry["verdict"], entry["summary"]["match"]) == ("match", 9)  # type: ignore[index]


def test_a_drop_on_a_filled_side_takes_its_place_and_one_beside_is_told(page: Page, tmp_path: Path) -> None:
    first, second = tmp_path / "first.npy", tmp_path / "second.npy"
    for file in (first, second):
        file.write_bytes(dumps.npy([1.0]))
    page.goto("/")
    reference = page.get_by_role("region", name="Reference")
    drop(page, "Reference", first)
    expect(reference.get_by_text("first.npy")).to_be_visible()
    drop(page, "Reference", second)
    expect(reference.get_by_text("second.npy")).to_be_visible()
    expect(reference.get_by_text("first.npy")).to_have_count(0)
    drop(page, "Recent comparisons", first)
    expect(page.get_by_role("status").get_by_text("Drop it on Reference or on Candidate.")).to_be_visible()
    page.get_by_role("button", name="Remove the reference").click()
    expect(reference.get_by_text("Drop an archive, files or a folder")).to_be_visible()


def test_an_empty_folder_is_told(page: Page, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    page.goto("/")
    drop(page, "Candidate", tmp_path / "nothing")
    expect(page.get_by_role("region", name="Candidate").get_by_role("alert")).to_contain_text("There is no file in")


def test_two_plain_tensor_files_are_a_pair(page: Page, server: Server, tmp_path: Path) -> None:
    values = np.arange(12, dtype=np.float32)
    (tmp_path / "mine.npy").write_bytes(dumps.npy(values))
    (tmp_path / "theirs.npy").write_bytes(dumps.npy(values + 1))
    page.goto("/")
    page.get_by_label("Reference files").set_input_files(tmp_path / "mine.npy")
    page.get_by_label("Candidate files").set_input_files(tmp_path / "theirs.npy")
    compare(page)
    entry = entry_opened(page, server)
    assert (entry["verdict"], entry["summary"]["mismatch"]) == ("mismatch", 1)  # type: ignore[index]


def test_paths_on_this_machine_are_compared_where_they_are(page: Page, server: Server, tmp_path: Path) -> None:
    reference = dumps.write_folder(tmp_path / "reference", dumps.tensors())
    candidate = dumps.write_folder(tmp_path / "candidate", dumps.tensors())
    page.goto("/")
    page.get_by_label("Reference path").fill(str(reference))
    page.get_by_label("Candidate path").fill(str(candidate))
    compare(page)
    entry = entry_opened(page, server)
    assert entry["verdict"] == "match"
    assert entry["reference"]["path"] == str(reference)  # type: ignore[index]


def test_one_trace_alone_is_looked_at(page: Page, server: Server, tmp_path: Path) -> None:
    page.goto("/")
    page.get_by_label("Candidate files").set_input_files(
        dumps.write_zip(tmp_path / "alone.zip", dumps.files(dumps.tensors()))
    )
    page.get_by_role("button", name="Look at it").click()
    entry = entry_opened(page, server)
    assert (entry["kind"], entry["state"], entry["verdict"]) == ("look", "done", None)


def test_one_file_is_compared_with_itself(page: Page, server: Server, tmp_path: Path) -> None:
    values = np.ones((3, 5), np.float32)
    np.savez(tmp_path / "all.npz", first=values, second=values, third=values * 2)
    page.goto("/")
    page.get_by_label("Reference files").set_input_files(tmp_path / "all.npz")
    page.get_by_role("button", name="Compare its tensors with each other").click()
    entry = entry_opened(page, server)
    assert (entry["kind"], entry["state"]) == ("self", "done")
    assert (entry["summary"]["match"], entry["summary"]["mismatch"]) == (1, 2)  # type: ignore[index]


def test_a_third_trace_is_kept_beside_the_two(page: Page, server: Server, tmp_path: Path) -> None:
    page.goto("/")
    page.get_by_label("Reference path").fill(str(dumps.write_folder(tmp_path / "a", dumps.tensors())))
    page.get_by_label("Candidate path").fill(str(dumps.write_folder(tmp_path / "b", dumps.tensors())))
    unfold(page, "Third trace (optional)")
    page.get_by_label("Third trace files").set_input_files(
        dumps.write_zip(tmp_path / "third.zip", dumps.files(dumps.tensors(wrong_from=0)))
    )
    expect(page.get_by_role("region", name="Third trace").get_by_text("third.zip")).to_be_visible()
    compare(page)
    entry = entry_opened(page, server)
    assert (entry["verdict"], entry["third"]["label"]) == ("match", "third.zip")  # type: ignore[index]


def test_a_third_trace_may_be_a_path_and_is_forgotten_once_used(page: Page, server: Server, tmp_path: Path) -> None:
    folder = dumps.write_folder(tmp_path / "run", dumps.tensors())
    page.goto("/")
    unfold(page, "Third trace (optional)")
    for side in ("Reference", "Candidate", "Third trace"):
        page.get_by_label(f"{side} path").fill(str(folder))
    page.reload()
    expect(page.get_by_label("Third trace path")).to_have_value(str(folder))
    compare(page)
    assert entry_opened(page, server)["third"]["path"] == str(folder)  # type: ignore[index]
    page.goto("/")
    expect(page.get_by_label("Reference path")).to_have_value("")
    expect(page.get_by_label("Third trace path")).to_be_hidden()


def test_the_demo_shows_a_planted_bug(page: Page, server: Server) -> None:
    page.goto("/")
    page.get_by_role("button", name="Open the demo").click()
    entry = entry_opened(page, server)
    assert (entry["state"], entry["verdict"]) == ("done", "mismatch")


def test_options_reach_the_comparison(page: Page, server: Server, tmp_path: Path) -> None:
    page.goto("/")
    page.get_by_label("Reference path").fill(str(dumps.write_folder(tmp_path / "a", dumps.tensors())))
    fewer = {name: values for name, values in dumps.tensors(wrong_from=0).items() if name != "layers.0.attn"}
    page.get_by_label("Candidate path").fill(str(dumps.write_folder(tmp_path / "b", fewer)))
    unfold(page, "Options")
    page.get_by_label("Absolute tolerance").fill("0.2")
    page.get_by_label("Allow missing").check()
    compare(page)
    entry = entry_opened(page, server)
    assert (entry["verdict"], entry["summary"]["missing"]) == ("match", 1)  # type: ignore[index]


def test_accepted_layouts_and_effort_reach_the_comparison(page: Page, server: Server, tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((12, 12)).astype(np.float32)
    page.goto("/")
    page.get_by_label("Reference path").fill(str(dumps.write_folder(tmp_path / "a", {"x": values})))
    page.get_by_label("Candidate path").fill(str(dumps.write_folder(tmp_path / "b", {"x": values.T})))
    unfold(page, "Options")
    page.get_by_label("Accepted layouts").fill("transpose, rope_interleave")
    page.get_by_label("Effort").fill("full")
    compare(page)
    assert entry_opened(page, server)["verdict"] == "match"


def test_every_other_option_reaches_the_comparison(page: Page, server: Server, tmp_path: Path) -> None:
    right = {"1_b": np.arange(12.0), "2_a": np.arange(12.0) ** 2}
    page.goto("/")
    page.get_by_label("Reference path").fill(str(dumps.write_folder(tmp_path / "a", right)))
    page.get_by_label("Candidate path").fill(
        str(dumps.write_folder(tmp_path / "b", {"7_x": right["1_b"], "8_y": 2 * right["2_a"]}))
    )
    unfold(page, "Options")
    page.get_by_label("Order of plain files").select_option("by number")
    crossed = (("1_b", "8_y"), ("2_a", "7_x"))
    page.get_by_label("Pairs (a map file").fill(
        "".join(f'[[pair]]\nreference = "{one}"\ncandidate = "{other}"\n' for one, other in crossed)
    )
    for name in ("No causes", "Measure with numpy", "Strict layout"):
        page.get_by_label(name).check()
    compare(page)
    entry = entry_opened(page, server)
    assert (entry["verdict"], entry["summary"]["mismatch"]) == ("mismatch", 2)  # type: ignore[index]
    settings = server.ask("GET", f"/comparisons/{entry['id']}/report?format=json")["settings"]
    assert (settings["order"], settings["engine"], settings["diagnose"]) == ("numbered", "numpy", False)
    assert settings["layout"] == "strict"


def test_an_option_that_makes_no_sense_is_said_and_nothing_is_lost(page: Page, tmp_path: Path) -> None:
    page.goto("/")
    page.get_by_label("Reference path").fill("/a")
    page.get_by_label("Candidate path").fill("/b")
    unfold(page, "Options")
    page.get_by_label("Relative tolerance").fill("little")
    compare(page)
    expect(page.get_by_role("alert")).to_contain_text("The relative tolerance is “little”: a number such as 1e-4")
    expect(page.get_by_label("Reference path")).to_have_value("/a")


def test_the_form_survives_a_reload(page: Page) -> None:
    page.goto("/")
    page.get_by_label("Reference path").fill("/runs/a.trace")
    unfold(page, "Options")
    page.get_by_label("Layer offset").fill("2")
    page.get_by_label("Layer offset").blur()
    page.reload()
    expect(page.get_by_label("Reference path")).to_have_value("/runs/a.trace")
    expect(page.get_by_text("layer offset 2")).to_be_visible()


def test_it_works_by_keyboard_alone(page: Page, server: Server, tmp_path: Path) -> None:
    folder = dumps.write_folder(tmp_path / "run", dumps.tensors())
    page.goto("/")
    expect(page.get_by_role("heading", name="Where do two runs part?")).to_be_visible()
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        name = page.evaluate(
            "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent.trim()"
        )
        reached.append(name)
        if name in ("Reference path", "Candidate path"):
            page.keyboard.type(str(folder))
        if name == "Compare Models":
            break
    assert {"Reference files", "Reference folder", "Candidate files", "Open the demo"} <= set(reached)
    page.keyboard.press("Enter")
    assert entry_opened(page, server)["verdict"] == "match"


def test_enter_in_a_path_compares(page: Page, server: Server, tmp_path: Path) -> None:
    folder = dumps.write_folder(tmp_path / "run", dumps.tensors())
    page.goto("/")
    page.get_by_label("Reference path").fill(str(folder))
    page.get_by_label("Candidate path").fill(str(folder))
    page.keyboard.press("Enter")
    assert entry_opened(page, server)["verdict"] == "match"


def test_single_keys_open_the_demo_and_lead_back(page: Page, server: Server) -> None:
    page.goto("/")
    expect(page.get_by_role("heading", name="Recent comparisons")).to_be_visible()
    page.keyboard.press("d")
    assert entry_opened(page, server)["verdict"] == "mismatch"
    page.keyboard.press("h")
    expect(page.get_by_role("heading", name="Where do two runs part?")).to_be_visible()
    page.keyboard.press("c")
    expect(page.get_by_role("alert")).to_contain_text("Both sides are empty")


def test_the_question_mark_lists_the_keys(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_role("heading", name="Where do two runs part?")).to_be_visible()
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys.get_by_text("Open the demo")).to_be_visible()
    page.keyboard.press("Escape")
    expect(keys).to_be_hidden()


def test_the_theme_can_be_chosen_and_is_kept(page: Page) -> None:
    page.goto("/")
    page.get_by_role("button", name="Theme").click()
    page.get_by_role("menuitemradio", name="Dark").click()
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280, 3840])
def test_it_fits_every_screen_and_axe_finds_nothing(
    new_context: Callable[..., BrowserContext], tmp_path: Path, scheme: str, width: int
) -> None:
    page = new_context(color_scheme=scheme, viewport={"width": width, "height": 900}).new_page()
    page.goto("/")
    page.get_by_label("Reference files").set_input_files(
        [{"name": f"{'long_' * 20}{n}.npy", "mimeType": "", "buffer": dumps.npy([n])} for n in range(7)]
    )
    unfold(page, "Options")
    unfold(page, "Third trace (optional)")
    compare(page)
    expect(page.get_by_role("alert")).to_contain_text("The candidate is empty")
    assert axe(page) == []
    assert not overflows(page)


def test_an_unknown_address_says_so(page: Page) -> None:
    page.goto("/nowhere/at/all")
    expect(page.get_by_text("There is nothing at this address")).to_be_visible()
    assert axe(page) == []
    page.get_by_role("link", name="To the start page", exact=True).click()
    expect(page.get_by_role("heading", name="Where do two runs part?")).to_be_visible()


def test_no_request_leaves_the_machine(page: Page, server: Server) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto("/")
    page.get_by_role("button", name="Open the demo").click()
    entry_opened(page, server)
    expect(page.get_by_role("button", name="Expand All")).to_be_visible()
    assert asked
    assert [url for url in asked if not url.startswith(f"{server.url}/")] == []


def test_a_request_to_another_machine_would_be_seen(
    new_context: Callable[..., BrowserContext], console: Console
) -> None:
    page = new_context(bypass_csp=True).new_page()
    page.route("http://192.0.2.1/**", lambda route: route.abort())
    page.goto("/")
    page.evaluate("fetch('http://192.0.2.1/').catch(() => null)")
    assert "a request left the machine: GET http://192.0.2.1/" in console.complaints
    console.complaints.clear()
