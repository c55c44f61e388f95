"""Runs to look into, and how the parts of the inspector are found: by role and name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from playwright.sync_api import Locator, Page, expect

from firstdiff.trace import Record, TraceWriter
from tests.web.serving import Server

Arrays = dict[str, np.ndarray]
RATE = 8000


def varied() -> tuple[Arrays, Arrays]:
    """A tensor of every kind that a view has to get right, with differences at known places."""
    random = np.random.default_rng(5)

    def normal(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    ours: Arrays = {f"layers.{layer}.mlp": normal(2, 4, 20, 30) for layer in range(3)}
    ours["odd"] = normal(6, 9)
    ours["odd"][0, :3] = np.nan, np.inf, -np.inf
    ours["turned"] = normal(12, 5, 7)
    ours["unlike"] = normal(4, 9)
    ours["eight"] = normal(2, 3, 2, 2, 2, 3, 4, 5)
    ours["one"] = np.float32(3.25)
    ours["none"] = np.zeros((0, 3), np.float32)
    ours["flags"] = random.random((4, 6)) > 0.5
    ours["ids"] = random.integers(-(2**62), 2**62, (3, 5))
    ours["ids"][0, 0] = 2**60 + 1
    ours["bf16"] = normal(4, 6).astype(ml_dtypes.bfloat16)
    ours["fp8"] = normal(4, 6).astype(ml_dtypes.float8_e4m3fn)
    ours["complex"] = (normal(3, 4) + 1j * normal(3, 4)).astype(np.complex64)
    ours["square"] = normal(6, 6)
    ours["alone"] = normal(5, 6)
    ours["broken"] = normal(3, 4)
    seconds = np.arange(RATE) / RATE
    ours["wave"] = (np.sin(2 * np.pi * 440 * seconds) * np.exp(-2 * seconds)).astype(np.float32)

    theirs: Arrays = {name: np.array(values) for name, values in ours.items() if name != "alone"}
    theirs["layers.1.mlp"] = ours["layers.1.mlp"] + normal(2, 4, 20, 30) * np.float32(0.01)
    theirs["layers.1.mlp"][1, 2, 17, 25] += 5
    theirs["layers.1.mlp"][0, 3, 2, 4] -= 3
    theirs["odd"][0, 1] = -np.inf
    theirs["odd"][4, 5] = np.nan
    theirs["turned"] = np.ascontiguousarray(ours["turned"].transpose(1, 0, 2))[None]
    theirs["unlike"] = normal(3, 7)
    theirs["eight"][1, 2, 1, 1, 1, 2, 3, 4] += 1
    theirs["ids"][0, 0] += 1
    theirs["flags"][0, 0] ^= True
    theirs["bf16"][1, 2] = 9
    theirs["fp8"][1, 2] = 8
    theirs["complex"][1, 1] = -theirs["complex"][1, 1]
    theirs["square"] = np.ascontiguousarray(ours["square"].T)
    theirs["new"] = normal(3, 5)
    theirs["wave"][[2000, 5000]] += np.float32(0.7)
    return ours, theirs


def third() -> Arrays:
    """Like the reference, but for one element; `turned` lies as in the candidate."""
    arrays = dict(varied()[0])
    arrays["layers.1.mlp"] = arrays["layers.1.mlp"].copy()
    arrays["layers.1.mlp"][0, 0, 0, 1] = 7
    arrays["turned"] = varied()[1]["turned"]
    return arrays


def write_trace(path: Path, arrays: Arrays) -> Path:
    with TraceWriter(path) as writer:
        for seq, (name, values) in enumerate(arrays.items()):
            attrs = {"sample_rate": RATE} if name == "wave" else {}
            writer.write(Record(name=name, role="output", seq=seq, attrs=attrs), values)
    return path


def compared(server: Server, folder: Path, ours: Arrays, theirs: Arrays, **more: Any) -> str:
    sides = write_trace(folder / "ref.trace", ours), write_trace(folder / "cand.trace", theirs)
    entry = server.compare(*sides, **more)
    assert entry["state"] == "done", entry
    return str(entry["id"])


def row_of(server: Server, comparison: str, key: str) -> int:
    rows = server.ask("GET", f"/comparisons/{comparison}/rows")["rows"]
    return next(int(row["index"]) for row in rows if row["key"] == key)


def inspect(page: Page, server: Server, comparison: str, key: str, view: str = "values", more: str = "") -> Locator:
    """The inspector of a row, opened by its address."""
    page.goto(f"/c/{comparison}/row/{row_of(server, comparison, key)}?view={view}{more}")
    found = inspector(page)
    expect(found.get_by_role("tablist")).to_be_visible()
    return found


def inspector(page: Page) -> Locator:
    return page.get_by_role("region", name="Raw tensor values")


def grid(page: Page) -> Locator:
    return inspector(page).get_by_role("grid", name="Values")


def cell(page: Page, *index: int) -> Locator:
    """The cell of an element, whose description says its index first."""
    return grid(page).get_by_title(re.compile(re.escape(f"[{', '.join(map(str, index))}] ")))


def chosen(page: Page) -> Locator:
    """The cell or line that the sliders stand at."""
    return grid(page).locator("[aria-selected=true]")


def slider(page: Page, dim: int) -> Locator:
    return inspector(page).get_by_role("slider", name=f"Dimension {dim}", exact=True)


def field(page: Page, dim: int) -> Locator:
    return inspector(page).get_by_role("spinbutton", name=f"Dimension {dim}", exact=True)


def sliders(page: Page, dims: int) -> list[int]:
    return [int(slider(page, dim).input_value()) for dim in range(dims)]


def tab(page: Page, name: str) -> Locator:
    return inspector(page).get_by_role("tab", name=name, exact=True)


def told(page: Page, term: str) -> str:
    """Return the text about the element under the pointer, or else at the sliders' position."""
    entries = inspector(page).get_by_label("Element", exact=True).locator("div")
    return entries.filter(has=page.get_by_text(term, exact=True)).locator("dd").inner_text()


def numbers(texts: list[str]) -> list[float]:
    return [float(re.sub(r"[,\s]", "", text)) for text in texts]
