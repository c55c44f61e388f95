"""Runs to look at on the comparison page, and how its parts are found: by role and name."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Locator, Page, expect

from tests.web import dumps
from tests.web.serving import OVER, Server

Arrays = dict[str, np.ndarray]
MINUTES = 8


def mixed() -> tuple[Arrays, Arrays]:
    """Every verdict but `failed`: a match, a wrong element, a NaN, another layout, one missing and one extra."""
    random = np.random.default_rng(3)
    names = [f"layers.{layer}.{stage}" for layer in range(3) for stage in ("attn", "mlp")]
    reference = {name: random.standard_normal((4, 6, 8), np.float32) for name in names}
    candidate = {name: values.copy() for name, values in reference.items()}
    candidate["layers.1.attn"] = np.ascontiguousarray(candidate["layers.1.attn"].transpose(1, 0, 2))
    candidate["layers.1.mlp"][0, 1, 2] += 1
    candidate["layers.2.attn"][0, 0, 0] = np.nan
    del candidate["layers.0.mlp"]
    candidate["new"] = random.standard_normal((3, 5), np.float32)
    return reference, candidate


def compared(server: Server, folder: Path, reference: Arrays, candidate: Arrays, **more: Any) -> str:
    """The id of a finished comparison of two folders of arrays."""
    sides = dumps.write_folder(folder / "ref", reference), dumps.write_folder(folder / "cand", candidate)
    entry = server.compare(*sides, **more)
    assert entry["state"] == "done", entry
    return str(entry["id"])


def compared_at_length(server: Server, reference: Path, candidate: Path) -> str:
    """The id of a finished comparison that may take minutes on a busy machine."""
    sides = {"reference": {"path": str(reference)}, "candidate": {"path": str(candidate)}}
    comparison = str(server.ask("POST", "/comparisons", {"kind": "pair", **sides})["id"])
    deadline = time.monotonic() + MINUTES * 60
    while server.ask("GET", f"/comparisons/{comparison}")["entry"]["state"] not in OVER:
        assert time.monotonic() < deadline, f"waited in vain until comparison {comparison} ends"
        time.sleep(0.2)
    return comparison


def demo(server: Server) -> str:
    return str(server.settled(server.ask("POST", "/demo")["id"])["id"])


def first_divergence(server: Server, comparison: str) -> Any:
    return server.ask("GET", f"/comparisons/{comparison}")["comparison"]["first_divergence"]


def opened(page: Page, comparison: str, rest: str = "") -> Page:
    """The page of a comparison, its table drawn."""
    page.goto(f"/c/{comparison}{rest}")
    expect(table(page)).to_be_visible()
    return page


def table(page: Page) -> Locator:
    return page.get_by_role("treegrid", name="Tensors")


def line(page: Page, key: str) -> Locator:
    """The row of a tensor, by its key and nothing more."""
    return table(page).get_by_role("row").filter(has=page.get_by_text(key, exact=True)).first


def group(page: Page, title: str) -> Locator:
    return table(page).get_by_role("row", name=re.compile(rf"^{re.escape(title)}\b"), exact=False).first


def lines(page: Page) -> list[str]:
    """The keys of the rows that are drawn, from top to bottom."""
    keys: list[str] = page.evaluate(
        """[...document.querySelectorAll('[role=treegrid] [role=row][id^="row-"]')]
        .sort((a, b) => a.getAttribute('aria-rowindex') - b.getAttribute('aria-rowindex'))
        .map(row => row.querySelector('.key').textContent)"""
    )
    return keys


def expand(page: Page) -> None:
    page.get_by_role("button", name="Expand All").click()


def card(page: Page, title: str) -> Locator:
    return page.get_by_role("region", name=title, exact=True)


def count(page: Page, status: str) -> Locator:
    """The button with the number of rows of a verdict."""
    return page.get_by_role("group", name="Counts by verdict").get_by_role("button", name=re.compile(rf"\b{status}$"))
