"""An opened row: values, figures, where and why, held to what `fd.compare` says."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import firstdiff as fd
from firstdiff.schema import Pair
from tests.web import comparisons as on
from tests.web import dumps
from tests.web.serving import Server

HOSTILE = {
    "script": "<script>document.title='owned'</script><img src=x onerror=alert(1)>",
    "unicode": "слой.0.注意力.🧨\u202eabc",
    "newline": "two\nlines\tand a tab",
    "long": "very.long." + "x" * 290,
}


@pytest.fixture(scope="module")
def mixed(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    reference, candidate = on.mixed()
    folder = tmp_path_factory.mktemp("mixed")
    reference["broken"] = candidate["broken"] = np.ones(3, np.float32)
    sides = dumps.write_folder(folder / "ref", reference), dumps.write_folder(folder / "cand", candidate)
    (sides[1] / "broken.npy").write_bytes(b"\x93NUMPY and no more")
    return str(server.compare(*sides)["id"])


@pytest.fixture(scope="module")
def wrong() -> Pair:
    """The row with one wrong element, as the API gives it."""
    return next(pair for pair in fd.compare(*on.mixed()).pairs if pair.key == "layers.1.mlp")


def open_row(page: Page, comparison: str, key: str) -> None:
    on.opened(page, comparison, "?group=none")
    on.line(page, key).click()
    expect(on.card(page, "Statistics")).to_be_visible()


def metric(page: Page, name: str) -> str:
    """The figure beside a metric's name."""
    term = on.card(page, "Metrics").locator("dl > div", has=page.locator("dt", has_text=re.compile(rf"^{name}\b")))
    return term.first.locator("dd").inner_text()


def test_the_first_ten_values_of_both_sides_stand_beside_each_other(page: Page, mixed: str) -> None:
    open_row(page, mixed, "layers.1.mlp")
    reference, candidate = on.mixed()
    rows = on.card(page, "First values").locator("tbody tr")
    expect(rows).to_have_count(10)
    for place, text in enumerate(rows.all_inner_texts()):
        shown = text.split()
        assert float(shown[1]) == float(reference["layers.1.mlp"].flat[place])
        assert float(shown[2]) == float(candidate["layers.1.mlp"].flat[place])
    expect(rows.nth(0)).to_contain_text("=")


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("max abs", "max_abs"),
        ("mean abs", "mean_abs"),
        ("mean rel", "mean_rel"),
        ("rel L2", "rel_l2"),
        ("1 − cosine", "one_minus_cosine"),
        ("cosine", "cosine"),
        ("MSE", "mse"),
        ("RMSE", "rmse"),
        ("NMSE", "nmse"),
        ("max ULP", "max_ulp"),
    ],
)
def test_every_metric_is_the_one_of_the_comparison(page: Page, mixed: str, wrong: Pair, name: str, field: str) -> None:
    open_row(page, mixed, "layers.1.mlp")
    expected = getattr(wrong.metrics, field)
    assert math.isclose(float(metric(page, name).replace(",", "")), expected, rel_tol=1e-5)


def test_metrics_are_explained_and_counted(page: Page, mixed: str, wrong: Pair) -> None:
    open_row(page, mixed, "layers.1.mlp")
    assert metric(page, "mismatched") == "1 of 192 (0.5 %)"
    expect(on.card(page, "Metrics")).to_contain_text("norm of d / norm of r")
    for share in (1, 5, 50, 95, 99):
        expect(on.card(page, "Metrics")).to_contain_text(f"{share} % of |d| are at most")


def test_statistics_of_both_sides_are_shown(page: Page, mixed: str, wrong: Pair) -> None:
    open_row(page, mixed, "layers.1.mlp")
    table = on.card(page, "Statistics")
    sides = [side.statistics for side in (wrong.reference, wrong.candidate) if side]
    for name in ("mean", "std", "min", "max"):
        row = table.get_by_role("row", name=re.compile(rf"^{name}\b"))
        row.wait_for()
        cells = [float(text) for text in row.get_by_role("cell").all_inner_texts()]
        assert all(
            math.isclose(cell, getattr(side, name), rel_tol=1e-5) for cell, side in zip(cells, sides, strict=True)
        )


def test_where_the_error_sits_and_how_large_it_is(page: Page, mixed: str, wrong: Pair) -> None:
    open_row(page, mixed, "layers.1.mlp")
    assert wrong.where is not None
    expect(on.card(page, "Where the error sits")).to_contain_text(wrong.where.text)
    found = on.card(page, "What was found")
    assert wrong.reason is not None
    expect(found).to_contain_text(wrong.reason)
    expect(found).to_contain_text("at index [0, 1, 2]")
    reference = on.mixed()[0]["layers.1.mlp"][0, 1, 2]
    expect(found).to_contain_text(repr(float(reference)))
    plot = on.card(page, "Differences").get_by_role("img", name=re.compile("Histogram of differences"))
    expect(plot).to_be_visible()
    expect(on.card(page, "Differences")).to_contain_text("191 without difference")


def test_the_tolerance_used_and_the_one_that_would_pass(page: Page, mixed: str, wrong: Pair) -> None:
    open_row(page, mixed, "layers.1.mlp")
    shown = on.card(page, "Tolerance")
    assert wrong.tolerance is not None
    expect(shown).to_contain_text("256 × eps × (std + |reference|)")
    expect(shown).to_contain_text(f"{wrong.tolerance.rtol:.6g}".replace("e-0", "e-"))
    expect(shown).to_contain_text("Would match with atol 1 or rtol")


def test_pairing_and_layout_say_how_they_are_known(page: Page, mixed: str) -> None:
    open_row(page, mixed, "layers.1.attn")
    expect(on.card(page, "Pairing")).to_contain_text("equal keys (exact, confidence 1)")
    expect(on.card(page, "Layout")).to_contain_text("a b c -> b a c")
    expect(on.card(page, "Layout")).to_contain_text("confidence")


def test_causes_come_with_evidence_and_a_fix(page: Page, server: Server) -> None:
    comparison = on.demo(server)
    first = on.first_divergence(server, comparison)
    on.opened(page, comparison, f"/row/{first['pair']}")
    causes = on.card(page, "Likely causes")
    for text in ("norm.eps", "with eps 0.001 instead of 1e-05", "set eps of layers.2.ln_1 to 1e-05", "remains"):
        expect(causes).to_contain_text(text)
    expect(causes.get_by_role("meter", name="Confidence in norm.eps")).to_be_visible()
    expect(on.card(page, "What was found")).to_contain_text("introduced here: all that goes into it matches")


def test_a_nan_is_told_apart_from_a_difference(page: Page, mixed: str) -> None:
    open_row(page, mixed, "layers.2.attn")
    expect(on.card(page, "What was found")).to_contain_text("1 NaN and 0 Inf in the candidate")
    expect(on.card(page, "Differences")).to_contain_text("1 not finite")
    expect(on.card(page, "Tolerance")).to_contain_text("No tolerance would make it match")


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("layers.0.mlp", "only the reference has it"),
        ("new", "only the candidate has it"),
        ("broken", "the candidate"),
    ],
)
def test_rows_without_two_sides_open_too(page: Page, mixed: str, key: str, says: str) -> None:
    open_row(page, mixed, key)
    expect(on.card(page, "What was found")).to_contain_text(says)
    assert on.card(page, "First values").locator("tbody tr").count() in (3, 10)
    expect(on.card(page, "Metrics")).to_be_hidden()


def test_one_trace_alone_shows_statistics_and_no_verdicts(page: Page, server: Server, tmp_path: Path) -> None:
    arrays = on.mixed()[0]
    entry = server.compare(dumps.write_folder(tmp_path / "alone", arrays))
    on.opened(page, entry["id"], "?group=none")
    expect(page.get_by_role("group", name="Counts by verdict")).to_be_hidden()
    expect(page.get_by_role("button", name="Tolerances")).to_be_hidden()
    on.line(page, "layers.0.attn").click()
    row = on.card(page, "Statistics").get_by_role("row", name=re.compile("^std"))
    assert math.isclose(float(row.get_by_role("cell").inner_text()), arrays["layers.0.attn"].std(), rel_tol=1e-4)
    expect(on.card(page, "Pairing")).to_be_hidden()


def test_the_tensors_of_one_file_against_each_other(page: Page, server: Server, tmp_path: Path) -> None:
    np.savez(tmp_path / "all.npz", first=np.ones((2, 3)), second=np.ones((2, 3)), third=np.zeros((2, 3)))
    body = {"kind": "self", "reference": {"path": str(tmp_path / "all.npz")}}
    entry = server.settled(server.ask("POST", "/comparisons", body)["id"])
    on.opened(page, entry["id"], "?group=none")
    expect(page.get_by_text("2 of 3 pairs differ.")).to_be_visible()
    expect(on.table(page).get_by_role("row", name=re.compile("match first.*second"))).to_be_visible()
    expect(page.get_by_role("button", name="Pairing")).to_be_hidden()


def test_hostile_names_are_only_text(page: Page, server: Server, tmp_path: Path) -> None:
    arrays = {name: np.full(4, place, np.float32) for place, name in enumerate(HOSTILE.values())}
    for side in ("ref", "cand"):
        np.savez(tmp_path / f"{side}.npz", **arrays)
    entry = server.compare(tmp_path / "ref.npz", tmp_path / "cand.npz")
    assert entry["summary"]["match"] == len(HOSTILE)
    on.opened(page, entry["id"], "?group=none")
    assert sorted(on.lines(page)) == sorted(HOSTILE.values())
    for place in range(len(HOSTILE)):
        on.table(page).locator(f"#row-{place}").click()
    expect(on.card(page, "Statistics")).to_have_count(len(HOSTILE))
    assert "owned" not in page.title()
    assert page.locator("img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
