from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import pytest

import firstdiff as fd
from firstdiff.errors import UsageError
from firstdiff.reports import report_named
from firstdiff.reports.text import render
from firstdiff.schema import Comparison

HOSTILE = "<script>|`*\x1b[31m\nnew]]>&\"'"


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    reference = {"a": np.ones(4), "b": np.arange(6.0), HOSTILE: [1.0, np.nan], "gone": [3], "words": ["x"]}
    candidate = {"a": np.ones(4), "b": np.arange(6.0) + 1, HOSTILE: [1.0, np.inf], "new": [2.5], "words": ["x"]}
    return fd.compare(reference, candidate)


def text_of(name: str, comparison: Comparison) -> str:
    return "".join(report_named(name).render(comparison))


def test_json_is_the_comparison(comparison: Comparison) -> None:
    found = json.loads(text_of("json", comparison), parse_constant=pytest.fail)
    assert (found["verdict"], len(found["pairs"])) == ("mismatch", 6)
    assert found["pairs"][2]["name"] == HOSTILE


def test_jsonl_is_header_pairs_footer(comparison: Comparison) -> None:
    lines = [json.loads(line) for line in text_of("jsonl", comparison).splitlines()]
    assert [line["kind"] for line in lines] == ["header", *["pair"] * 6, "footer"]
    whole = json.loads(text_of("json", comparison))
    together = {key: value for line in (lines[0], lines[-1]) for key, value in line.items() if key != "kind"}
    together["pairs"] = [{key: value for key, value in line.items() if key != "kind"} for line in lines[1:-1]]
    assert together == whole


def test_junit_is_valid_xml_and_counts(comparison: Comparison) -> None:
    suite = ElementTree.fromstring(text_of("junit", comparison))
    assert {key: suite.get(key) for key in ("tests", "failures", "errors")} == {
        "tests": "6",
        "failures": "4",
        "errors": "1",
    }
    cases = {case.get("name"): case for case in suite}
    assert list(cases["a"]) == []
    failure = cases["b"].find("failure")
    assert failure is not None
    assert failure.get("message") == "first divergence: values differ beyond the tolerance"
    assert "Difference: 6 of 6 elements" in (failure.text or "")
    assert cases["words"].find("error") is not None


def test_junit_passes_what_is_allowed() -> None:
    comparison = fd.compare(
        {"a": [1.0], "b": [2.0]}, {"a": [1.0], "c": [500.0, 2.0]}, allow_missing=True, allow_extra=True
    )
    assert ElementTree.fromstring(text_of("junit", comparison)).get("failures") == "0"


def test_junit_of_nothing_compared_fails() -> None:
    suite = ElementTree.fromstring(text_of("junit", fd.compare({}, {})))
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")


def test_markdown_has_the_answer_first_and_no_open_doors(comparison: Comparison) -> None:
    text = text_of("md", comparison)
    lines = text.splitlines()
    assert lines[0].startswith("## firstdiff: MISMATCH: 2 mismatch, 1 match, 1 missing, 1 extra, 1 failed")
    answer = lines.index("**First divergence: b, \\[6\\] float64**")
    rows = [line for line in lines if line.startswith(("| mismatch", "| missing", "| extra", "| failed"))]
    assert answer < lines.index(rows[0])
    assert len(rows) == 5
    assert all(line.replace("\\|", "").count("|") == 8 for line in rows)
    assert "\x1b" not in text
    assert "<script>" not in text.replace("`` <script>", "")


def test_text_begins_with_verdict_and_answer(comparison: Comparison) -> None:
    lines = "".join(render(comparison)).splitlines()
    assert lines[0].startswith("MISMATCH: 2 mismatch, 1 match, 1 missing, 1 extra, 1 failed; ")
    assert "First divergence: b, [6] float64" in lines[:8]
    assert not any("\x1b" in line for line in lines)


def test_text_says_nothing_of_operations_that_cannot_be_judged_alone() -> None:
    values = np.random.default_rng(0).normal(size=400).astype(np.float32)
    compared = fd.compare({"a": values}, {"a": values + np.float32(1e-6)})
    assert compared.pairs[0].isolated is not None
    assert compared.pairs[0].isolated.status == "unknown"
    line = next(line for line in text_of("text", compared).splitlines() if line.startswith("a "))
    assert line.endswith("0 / 400")


def test_text_leaves_out_matches_of_a_long_comparison_and_says_so() -> None:
    reference = {f"t{n}": [float(n)] for n in range(100)}
    comparison = fd.compare(reference, reference | {"t50": [0.5], "t70": [1e9]})
    long, worst = (
        "".join(render(comparison, **options)).splitlines()  # type: ignore[arg-type]
        for options in ({"every_row": True}, {"sort": "worst"})
    )
    assert "… 98 more that match (--all prints every row)" in worst
    assert sum(" match " in line for line in long) >= 98
    assert [line.split()[0] for line in worst if " mismatch " in line] == ["t70", "t50"]
    short = "".join(render(comparison))
    assert "t52" not in short
    assert short.splitlines()[-1].startswith("--all prints every row")


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(UsageError, match="--format is 'pdf'; it takes one of github, json, jsonl, junit, md, text"):
        report_named("pdf")
