from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from firstdiff.comparing import compare
from firstdiff.json_text import plain
from tests.server.conftest import Page


def test_the_json_report_is_that_of_the_command_line(page: Page, runs: tuple[Path, Path]) -> None:
    entry = page.compare(*runs)
    answer = page.client.get(f"/api/comparisons/{entry['id']}/report", params={"format": "json"})
    assert answer.headers["content-disposition"] == f'attachment; filename="firstdiff-{entry["id"]}.json"'
    report, expected = answer.json(), plain(compare(*runs))
    for changing in ("timings",):
        assert set(report.pop(changing)) == set(expected.pop(changing))
    assert report == expected


def test_junit_and_markdown(page: Page, runs: tuple[Path, Path]) -> None:
    entry = page.compare(*runs)
    junit = page.client.get(f"/api/comparisons/{entry['id']}/report", params={"format": "junit"})
    assert ElementTree.fromstring(junit.text).attrib["failures"] == "2"
    markdown = page.client.get(f"/api/comparisons/{entry['id']}/report", params={"format": "md"})
    assert markdown.text.startswith("## firstdiff: MISMATCH")


@pytest.mark.parametrize(("form", "code"), [("exe", 422), ("", 422)])
def test_a_form_nobody_knows(page: Page, runs: tuple[Path, Path], form: str, code: int) -> None:
    entry = page.compare(*runs)
    page.error("GET", f"/comparisons/{entry['id']}/report", code, params={"format": form})
