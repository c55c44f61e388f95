from __future__ import annotations

from pathlib import Path

import pytest

import firstdiff as fd
from firstdiff.reports import report_named
from firstdiff.reports.github import annotation


def test_the_first_divergence_is_an_annotation_and_the_summary_is_added_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("# Before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    comparison = fd.compare({"a": [1.0, 2.0, 3.0], "b": [1.0, 5.0]}, {"a": [1.0, 2.0, 3.5], "b": [1.0, 5.0]})
    lines = "".join(report_named("github").render(comparison)).splitlines()
    assert lines[0].startswith("::error title=First divergence%3A a%2C [3] float64::Origin: ")
    assert "%0ADifference: 1 of 3 elements" in lines[0]
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("# Before\n## firstdiff: MISMATCH")


def test_a_match_is_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    (line,) = report_named("github").render(fd.compare({"a": [1.0]}, {"a": [1.0]}))
    assert line.startswith("::notice title=firstdiff::MATCH")


def test_text_cannot_end_an_annotation() -> None:
    assert annotation("error", "a,b: c", "1\n::error::2%\r") == "::error title=a%2Cb%3A c::1%0A::error::2%25%0D\n"
