"""Names as large models have them: what is shortened can be read in full, and the head holds the whole answer."""

from __future__ import annotations

import re
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Locator, Page, expect

import firstdiff as fd
from tests.web import comparisons as on
from tests.web.serving import Server

PARTS = ("query_normalization_before_rotary_embed", "value_normalization_before_rotary_embed")
WIDTHS = [(1280, 800), (400, 800)]


class Attention(torch.nn.Module):
    """Two norms in a row, under names of some length."""

    def __init__(self) -> None:
        super().__init__()
        self.self_attention = torch.nn.ModuleDict({part: torch.nn.LayerNorm(16) for part in PARTS})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm in self.self_attention.values():
            x = x + norm(x)
        return x


def model() -> torch.nn.Module:
    layers = (torch.nn.Sequential(OrderedDict(attention=Attention())) for _ in range(3))
    return torch.nn.Sequential(
        OrderedDict(encoder=torch.nn.Sequential(OrderedDict(layer=torch.nn.Sequential(*layers))))
    )


PREFIX = "encoder.layer.1."
REST = f"attention.self_attention.{PARTS[0]}"
FIRST = PREFIX + REST


@pytest.fixture(scope="module")
def long(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("long")
    reference, candidate = model().eval(), model().eval()
    candidate.get_submodule(FIRST).eps = 1e-2
    x = torch.randn(2, 8, 16, generator=torch.Generator().manual_seed(0))
    for side, path in ((reference, "ref.trace"), (candidate, "cand.trace")):
        with torch.no_grad(), fd.capture(side, folder / path, level="module"):
            side(x)
    return str(server.compare(folder / "ref.trace", folder / "cand.trace")["id"])


def is_cut(element: Locator) -> bool:
    """True if some of an element's text is cut off."""
    return bool(element.evaluate("e => e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1"))


@pytest.mark.parametrize(("width", "height"), WIDTHS)
def test_verdict_name_cause_fix_origin_and_place_fit_into_the_head(
    page: Page, long: str, width: int, height: int
) -> None:
    assert len(FIRST) == 80
    page.set_viewport_size({"width": width, "height": height})
    head = on.opened(page, long).get_by_role("region", name="Comparison")
    link = head.get_by_role("link", name=FIRST)
    cause, fix = head.locator(".cause"), head.locator(".fix")
    expect(cause).to_contain_text("norm.eps")
    expect(fix).to_contain_text(f"set eps of {FIRST} to 1e-05")
    origin, where = head.locator(".place").all()
    expect(origin).to_contain_text(f"Origin introduced here: all that goes into it matches ({FIRST}:in.0)")
    expect(where).to_contain_text(re.compile("^Where "))
    for part in (link, cause, fix, origin, where):
        expect(part).to_be_in_viewport(ratio=1)
        assert not is_cut(part)
    box = head.bounding_box()
    assert box is not None
    assert box["height"] < height / 3


def test_a_head_that_fills_the_screen_goes_away_with_what_is_scrolled(page: Page, long: str) -> None:
    page.set_viewport_size({"width": 400, "height": 500})
    head = on.opened(page, long).get_by_role("region", name="Comparison")
    expect(head).to_be_in_viewport(ratio=1)
    page.evaluate("scrollTo(0, 600)")
    expect(head).not_to_be_in_viewport()
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(head).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize(("width", "height"), WIDTHS)
def test_rows_leave_out_what_their_layer_says(page: Page, long: str, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    on.opened(page, long)
    expect(on.group(page, "Layer 1")).to_contain_text(PREFIX)
    page.get_by_role("link", name=FIRST).click()
    row = on.line(page, FIRST)
    expect(row).to_be_focused()
    assert "".join(row.locator(".start, .end").all_text_contents()) == REST
    expect(row.locator(".name")).to_have_attribute("title", FIRST)
    assert not is_cut(row.locator(".end"))
    expect(row.locator(".end")).to_be_in_viewport(ratio=1)


def test_the_full_name_of_the_focused_row_is_shown(page: Page, long: str) -> None:
    on.opened(page, long)
    page.get_by_role("link", name=FIRST).click()
    expect(on.line(page, FIRST)).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(on.line(page, f"{FIRST}:in.0")).to_be_focused()
    full = page.locator("output.focused")
    expect(full).to_have_text(f"{FIRST}:in.0")
    expect(full).to_be_in_viewport(ratio=1)
    page.get_by_role("searchbox", name="Filter by text").focus()
    expect(full).to_be_hidden()


def test_the_cause_of_a_row_is_looked_for_on_demand(page: Page, server: Server) -> None:
    demo = on.demo(server)
    rows = {row["key"]: row["index"] for row in server.ask("GET", f"/comparisons/{demo}/rows")["rows"]}
    on.opened(page, demo, f"/row/{rows['layers.2.attn.qkv']}")
    causes = on.card(page, "Likely causes")
    causes.get_by_role("button", name="Look for the cause").click()
    expect(causes).to_contain_text(re.compile("layers.2.attn.qkv is what its own inputs give"))
    expect(causes.get_by_role("button")).to_have_count(0)


def test_a_side_that_is_gone_says_so_where_the_cause_is_looked_for(page: Page, server: Server, tmp_path: Path) -> None:
    reference, candidate = on.mixed()
    reference["layers.1.attn"] = reference["layers.1.attn"] + 1
    unclear = on.compared(server, tmp_path, reference, candidate)
    for file in (tmp_path / "cand").iterdir():
        file.unlink()
    (tmp_path / "cand").rmdir()
    rows = server.ask("GET", f"/comparisons/{unclear}/rows")["rows"]
    without = next(row["index"] for row in rows if row["status"] == "mismatch" and row["cause"] is None)
    on.opened(page, unclear, f"/row/{without}")
    causes = on.card(page, "Likely causes")
    causes.get_by_role("button", name="Look for the cause").click()
    expect(causes.get_by_role("alert")).to_contain_text("the candidate cannot be opened")
    expect(causes.get_by_role("button", name="Look for the cause")).to_be_enabled()
