"""Figures on the page held to numpy, and the order they put rows in."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import firstdiff as fd
from tests.web import comparisons as on
from tests.web.serving import Server

RANDOM = np.random.default_rng(11)
K = 256


def noisy() -> tuple[on.Arrays, on.Arrays]:
    """Three tensors, wrong by amounts that sort differently by absolute and by relative size."""
    reference, candidate = {}, {}
    for name, scale, share in (("large", 100.0, 1e-4), ("middle", 1.0, 3e-3), ("small", 1e-3, 0.2)):
        values = scale * RANDOM.standard_normal((3, 40))
        reference[name] = values.astype(np.float32)
        candidate[name] = (values * (1 + share * RANDOM.standard_normal((3, 40)))).astype(np.float32)
    # one head alone is wrong
    reference["one head"] = RANDOM.standard_normal((2, 6, 16)).astype(np.float32)
    candidate["one head"] = reference["one head"].copy()
    candidate["one head"][:, 4] += RANDOM.standard_normal((2, 16)).astype(np.float32)
    return reference, candidate


REFERENCE, CANDIDATE = noisy()


@pytest.fixture(scope="module")
def comparison(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    return on.compared(server, tmp_path_factory.mktemp("noisy"), REFERENCE, CANDIDATE)


def opened(page: Page, comparison: str, key: str) -> None:
    on.opened(page, comparison, "?group=none")
    on.line(page, key).click()
    expect(on.card(page, "Metrics")).to_be_visible()


def test_the_metrics_are_numpys(page: Page, comparison: str) -> None:
    opened(page, comparison, "middle")
    reference, candidate = (side["middle"].astype(np.float64) for side in (REFERENCE, CANDIDATE))
    off = candidate - reference
    cosine = np.vdot(reference, candidate) / np.linalg.norm(reference) / np.linalg.norm(candidate)
    expected = {
        "max abs": np.abs(off).max(),
        "mean abs": np.abs(off).mean(),
        "max rel": (np.abs(off) / np.abs(reference)).max(),
        "mean rel": (np.abs(off) / np.abs(reference)).mean(),
        "rel L2": np.linalg.norm(off) / np.linalg.norm(reference),
        "1 − cosine": 1 - cosine,
        "MSE": (off**2).mean(),
        "RMSE": math.sqrt((off**2).mean()),
        "NMSE": (off**2).mean() / reference.var(),
        "SQNR": 20 * math.log10(np.linalg.norm(reference) / np.linalg.norm(off)),
    }
    card = on.card(page, "Metrics")
    for name, value in expected.items():
        term = card.locator("dl > div", has=page.locator("dt", has_text=re.compile(rf"^{name}\b"))).first
        shown = float(term.locator("dd").inner_text().replace(",", "").replace(" dB", ""))
        assert math.isclose(shown, value, rel_tol=1e-4), name
    eps = np.finfo(np.float32).eps
    outside = int((np.abs(off) > K * eps * (reference.std() + np.abs(reference))).sum())
    expect(card).to_contain_text(f"{outside} of {reference.size}")


def test_statistics_and_histogram_are_numpys(page: Page, comparison: str) -> None:
    opened(page, comparison, "small")
    for column, values in enumerate((REFERENCE["small"], CANDIDATE["small"])):
        for name in ("mean", "std", "min", "max"):
            row = on.card(page, "Statistics").get_by_role("row", name=re.compile(rf"^{name}\b"))
            shown = float(row.get_by_role("cell").nth(column).inner_text())
            assert math.isclose(shown, getattr(values.astype(np.float64), name)(), rel_tol=1e-4), name
    off = np.abs(CANDIDATE["small"].astype(np.float64) - REFERENCE["small"])
    bars = on.card(page, "Differences").locator(".bar")
    counts = [int(title.split()[0]) for title in bars.evaluate_all("(bars) => bars.map((bar) => bar.title)")]
    octaves = np.floor(np.log2(off[off > 0])).astype(int)
    assert counts == np.bincount(octaves - octaves.min()).tolist()


def test_the_error_is_said_to_sit_where_it_was_put(page: Page, comparison: str) -> None:
    opened(page, comparison, "one head")
    where = on.card(page, "Where the error sits")
    expect(where.get_by_role("row").filter(has_text="100 %")).to_contain_text("4")


def test_the_chart_shows_the_error_relative_to_the_norm(page: Page, comparison: str) -> None:
    chart = on.opened(page, comparison).get_by_role("slider", name="Place in depth")
    chart.focus()
    page.keyboard.press("Home")
    text = chart.get_attribute("aria-valuetext") or ""
    key = text.partition(": error ")[0]
    off = CANDIDATE[key].astype(np.float64) - REFERENCE[key]
    shown = float(text.partition(": error ")[2].partition(",")[0])
    assert math.isclose(shown, np.linalg.norm(off) / np.linalg.norm(REFERENCE[key]), rel_tol=0.01)


def test_rows_are_sorted_by_every_metric(page: Page, comparison: str) -> None:
    metrics = {pair.key: pair.metrics for pair in fd.compare(REFERENCE, CANDIDATE).pairs}
    on.opened(page, comparison, "?group=none")
    choice = page.get_by_label("Sort by")
    fields = choice.locator("option").evaluate_all("(options) => options.map((option) => option.value)")
    measured = [field for field in fields if field not in ("order", "ratio")]
    assert {"max_abs", "mean_abs", "max_rel", "mean_rel", "rel_l2", "rmse", "nmse", "max_ulp"} < set(measured)
    orders = set()
    for field in measured:
        choice.select_option(field)
        expect(page).to_have_url(re.compile(f"sort=-{field}$"))
        values = [getattr(metrics[key], field) for key in on.lines(page)]
        assert values == sorted(values, reverse=True), field
        orders.add(tuple(on.lines(page)))
    assert len(orders) > 2


def test_a_pairing_that_is_not_the_only_one_lists_the_others(page: Page, server: Server, tmp_path: Path) -> None:
    first, second = RANDOM.standard_normal((2, 6, 6)).astype(np.float32)
    swapped = on.compared(server, tmp_path, {"a": first, "b": second}, {"a": second, "b": first})
    opened(page, swapped, "a")
    expect(on.card(page, "What was found")).to_contain_text("the values of b fit far better")
    pairing = on.card(page, "Pairing")
    expect(pairing.get_by_role("listitem")).to_contain_text("b")
    pairing.get_by_role("button", name="Pair with this").click()
    expect(on.line(page, "a")).to_have_accessible_name(re.compile("^match a candidate: b"))


def test_a_layout_that_is_not_the_only_one_lists_the_others(page: Page, server: Server, tmp_path: Path) -> None:
    values = RANDOM.standard_normal((2, 5, 5)).astype(np.float32)
    symmetric = values + values.transpose(0, 2, 1)
    moved = np.ascontiguousarray(symmetric.transpose(1, 2, 0))
    several = on.compared(server, tmp_path, {"x": symmetric, "y": values}, {"x": moved, "y": values})
    opened(page, several, "x")
    layout = on.card(page, "Layout")
    expect(layout).to_contain_text("a b c -> c a b")
    other = layout.get_by_role("listitem").filter(has_text="a b c -> c b a")
    expect(on.card(page, "First values")).to_contain_text("Each side in its own order")
    other.get_by_role("button", name="Use this layout").click()
    expect(on.line(page, "x")).to_contain_text("a b c -> c b a")
    expect(on.count(page, "mismatch")).to_contain_text("0")
