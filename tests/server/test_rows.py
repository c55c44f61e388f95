from __future__ import annotations

from pathlib import Path

import numpy as np

from firstdiff.schema import Comparison, Pair, Side, Summary
from firstdiff.server.result_tables import RowLine, line_of
from firstdiff.store import Given, Outcome
from firstdiff.store.results import ResultFiles, write_result
from tests.server.conftest import Page, write_folder


def test_a_row_has_all_that_the_table_shows(page: Page, runs: tuple[Path, Path]) -> None:
    entry = page.compare(*runs)
    rows = page.get(f"/comparisons/{entry['id']}/rows")["rows"]
    assert set(rows[1]) == set(RowLine.__dataclass_fields__)
    wrong = rows[1]
    assert (wrong["status"], wrong["mismatched"], wrong["elements"], wrong["recipe"]) == ("mismatch", 1, 32, None)
    assert (wrong["layer"], wrong["stage"], wrong["reference_shape"]) == (1, "mlp", [4, 8])
    assert wrong["ratio"] > 1 > rows[0]["ratio"] == 0
    assert abs(wrong["max_abs"] - 0.5) < 1e-6


def test_an_opened_row_shows_values_histogram_and_pair(page: Page, tmp_path: Path) -> None:
    reference = write_folder(tmp_path / "r", x=np.arange(16, dtype="f4"))
    values = np.arange(16, dtype="f4")
    values[3], values[5] = 3.25, np.nan
    entry = page.compare(reference, write_folder(tmp_path / "c", x=values))
    detail = page.get(f"/comparisons/{entry['id']}/rows/0")
    assert detail["first_values"]["reference"] == [f"{float(number)!r}" for number in range(10)]
    assert detail["first_values"]["candidate"][3:6] == ["3.25", "4.0", "nan"]
    assert detail["histogram"] == {"edges": [0.25, 0.5], "counts": [1], "zero": 14, "nonfinite": 1}
    assert detail["readable"] == {"reference": True, "candidate": True}
    assert detail["pair"]["metrics"]["nan_candidate"] == 1
    assert page.get(f"/comparisons/{entry['id']}/rows")["rows"][0]["ratio"] == "inf"


def test_numbers_beyond_what_a_page_can_hold_come_as_text(page: Page, tmp_path: Path) -> None:
    big = 2**53 + 1
    one = write_folder(tmp_path / "r", n=np.array([big]), c=np.array([1 + 2j]), b=np.array([True]))
    entry = page.compare(one, kind="look")
    shown = {}
    for row in page.get(f"/comparisons/{entry['id']}/rows")["rows"]:
        shown[row["name"]] = page.get(f"/comparisons/{entry['id']}/rows/{row['index']}")["first_values"]["reference"]
    assert shown == {"n": [str(big)], "c": ["(1.0+2.0j)"], "b": ["True"]}


def test_rows_without_a_partner_or_values_open_too(page: Page, tmp_path: Path) -> None:
    reference = write_folder(tmp_path / "r", a=[1.0], left=[2.0])
    (reference / "broken.npy").write_bytes(b"\x93NUMPY nonsense")
    candidate = write_folder(tmp_path / "c", a=[1.0], broken=[1.0], right=np.zeros((2, 7)))
    entry = page.compare(reference, candidate)
    rows = {row["name"]: row for row in page.get(f"/comparisons/{entry['id']}/rows")["rows"]}
    assert {name: row["status"] for name, row in rows.items()} == {
        "a": "match",
        "broken": "failed",
        "left": "missing",
        "right": "extra",
    }
    details = {name: page.get(f"/comparisons/{entry['id']}/rows/{row['index']}") for name, row in rows.items()}
    assert details["left"]["first_values"] == {"reference": ["2.0"], "candidate": []}
    assert details["right"]["first_values"]["candidate"] == ["0.0"] * 10
    assert details["broken"]["readable"] == {"reference": False, "candidate": True}
    assert len(details["broken"]["notices"]) == 1
    assert details["broken"]["histogram"] is None


def test_a_row_that_is_not_there(page: Page, runs: tuple[Path, Path]) -> None:
    entry = page.compare(*runs)
    assert "there is no row 3; the comparison has 3" in page.error("GET", f"/comparisons/{entry['id']}/rows/3", 400)
    assert "does not fit" in page.error("GET", f"/comparisons/{entry['id']}/rows/x", 422)


def test_ten_thousand_rows_and_two_hundred_comparisons(page: Page) -> None:
    store = page.context.store
    rows = tuple(
        Pair(index=index, key=f"t{index}", name=f"t{index}", role="output", step=0, rank=0, status="missing")
        for index in range(10_000)
    )
    summary = Summary(match=0, mismatch=0, missing=10_000, extra=0, failed=0, elements=0, coverage=0.0)
    whole = Comparison(
        version="0",
        settings={},
        warnings=(),
        reference=Side("r", 10_000),
        candidate=Side("c", 0),
        verdict="not_compared",
        summary=summary,
        first_divergence=None,
        divergences=(),
        pairs=rows,
    )
    page.context.jobs.close()
    given = Given(label="x", path="/nowhere")
    ids = [store.comparisons.add("pair", {"reference": given, "candidate": given}, {}, None) for _ in range(200)]
    owner = store.own()
    job = store.comparisons.claim(owner.id)
    assert job is not None
    write_result(store.home.result(job.id, job.run), ResultFiles(whole, map(line_of, rows), {}, {}, {}))
    store.comparisons.finish(job, owner.id, Outcome(verdict="not_compared", summary=summary, first=None))
    owner.close()
    assert [entry["id"] for entry in page.get("/comparisons")["comparisons"]] == ids[::-1]
    assert [row["key"] for row in page.get(f"/comparisons/{job.id}/rows")["rows"]] == [row.key for row in rows]
    assert page.get(f"/comparisons/{job.id}/rows/9999")["pair"]["key"] == "t9999"


def test_tensors_can_be_searched(page: Page, runs: tuple[Path, Path]) -> None:
    entry = page.compare(*runs)
    found = page.get(f"/comparisons/{entry['id']}/tensors", side="candidate", search="MLP 1", limit=5)
    assert found == {"tensors": [{"key": "01_mlp", "shape": [4, 8], "dtype": "float32", "row": 1}], "total": 1}
    assert page.get(f"/comparisons/{entry['id']}/tensors", limit=2)["total"] == 3


def test_the_first_divergence_comes_with_its_sentences(page: Page) -> None:
    demo = page.finished(page.post("/demo")["id"])["id"]
    assert page.get(f"/comparisons/{demo}")["first"] == {
        "origin": "introduced here: all that goes into it matches (layers.2.ln_1:in.0)",
        "where": "spread over the whole tensor: 79.4 % of the elements differ",
    }


def test_nothing_that_differs_has_no_first_row(page: Page, runs: tuple[Path, Path]) -> None:
    assert page.get(f"/comparisons/{page.compare(runs[0], runs[0])['id']}")["first"] is None


def test_the_cause_of_one_row_is_looked_for_on_demand(page: Page) -> None:
    demo = page.finished(page.post("/demo")["id"])["id"]
    rows = {row["key"]: row for row in page.get(f"/comparisons/{demo}/rows")["rows"]}
    first, later = rows["layers.2.ln_1"], rows["layers.2.attn.qkv"]
    found = page.post(f"/comparisons/{demo}/rows/{first['index']}/diagnosis")
    assert found["diagnosis"][0]["cause"] == "norm.eps"
    found = page.post(f"/comparisons/{demo}/rows/{later['index']}/diagnosis")
    assert found["diagnosis"] == []
    assert "layers.2.attn.qkv is what its own inputs give" in found["unknown"]
    assert page.get(f"/comparisons/{demo}/rows/{later['index']}")["origin"].startswith("inherited from its inputs: ")


def test_one_trace_alone_has_no_cause_to_look_for(page: Page, runs: tuple[Path, Path]) -> None:
    alone = page.compare(runs[0], kind="look")["id"]
    refused = page.error("POST", f"/comparisons/{alone}/rows/0/diagnosis", 400)
    assert "two traces are compared" in refused


def test_nan_on_both_sides_has_the_same_ratio_in_the_table_and_when_judged_again(page: Page, tmp_path: Path) -> None:
    values = np.array([1.0, np.nan, 3.0], "f4")
    entry = page.compare(write_folder(tmp_path / "r", x=values), write_folder(tmp_path / "c", x=values))
    row = page.get(f"/comparisons/{entry['id']}/rows")["rows"][0]
    judged = page.post(f"/comparisons/{entry['id']}/judge", {})["rows"][0]
    assert (row["status"], row["ratio"]) == ("mismatch", "inf")
    assert (judged["status"], judged["ratio"]) == ("mismatch", "inf")
    allowed = page.compare(tmp_path / "r", tmp_path / "c", options={"equal_nan": True})
    assert page.get(f"/comparisons/{allowed['id']}/rows")["rows"][0]["ratio"] == 0


def test_a_tensor_called_a_plus_b_is_one_tensor(page: Page, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    one, other = rng.standard_normal((2, 6, 4)).astype("f4")
    named = {"a": one, "b": other, "a + b": one + other}
    entry = page.compare(write_folder(tmp_path / "r", **named), write_folder(tmp_path / "c", **named))
    comparison = entry["id"]
    tensors = page.get(f"/comparisons/{comparison}/tensors?side=reference")["tensors"]
    assert all(tensor["row"] is not None for tensor in tensors)
    text = page.client.get(f"/api/comparisons/{comparison}/map.toml").text
    assert 'reference = "a + b"' in text
    edits = {"pairs": [{"reference": "a + b", "candidate": "a"}], "dropped": [], "layouts": [], "layer_offset": None}
    assert page.client.put(f"/api/comparisons/{comparison}/edits", json=edits).status_code == 200
    assert page.finished(comparison)["error"] is None
    rows = page.get(f"/comparisons/{comparison}/rows")["rows"]
    assert ("a + b", "a") in {(row["key"], row["candidate_name"]) for row in rows}
