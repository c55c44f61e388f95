"""Reports downloaded from the page, or read on it, equal those of the command line."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import firstdiff as fd
from firstdiff.reports.sentences import answer
from firstdiff.workflows.demo import unpack_demo
from tests.web import comparisons as on
from tests.web.serving import FIRSTDIFF, Server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mixed")


@pytest.fixture(scope="module")
def mixed(server: Server, folder: Path) -> str:
    return on.compared(server, folder, *on.mixed())


def firstdiff(folder: Path, *options: str) -> str:
    command = [str(FIRSTDIFF), "compare", str(folder / "ref"), str(folder / "cand"), *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 1, done.stderr
    return done.stdout


def downloaded(page: Page, label: str, file: Path) -> str:
    page.get_by_role("button", name="Download").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name=label, exact=True).click()
    download.value.save_as(file)
    return file.read_text(encoding="utf-8")


def without_times(text: str) -> str:
    return re.sub(r'( time(stamp)?="[^"]*")|\d+(\.\d+)? m?s\b', "", text)


def test_json_is_that_of_the_command_line(page: Page, mixed: str, folder: Path, tmp_path: Path) -> None:
    def parsed(text: str) -> Any:
        found = json.loads(text)
        return {name: value for name, value in found.items() if name != "timings"}

    text = downloaded(on.opened(page, mixed), "JSON", tmp_path / "report.json")
    assert parsed(text) == parsed(firstdiff(folder, "--format", "json"))


@pytest.mark.parametrize(("label", "name"), [("Markdown", "md"), ("JUnit", "junit")])
def test_reports_are_those_of_the_command_line(
    page: Page, mixed: str, folder: Path, tmp_path: Path, label: str, name: str
) -> None:
    text = downloaded(on.opened(page, mixed), label, tmp_path / "report")
    assert without_times(text).strip() == without_times(firstdiff(folder, "--format", name)).strip()


def test_tolerances_saved_as_toml_judge_the_same_on_the_command_line(
    page: Page, mixed: str, folder: Path, tmp_path: Path
) -> None:
    on.opened(page, mixed, "?rule=custom&atol=1.5")
    expect(on.count(page, "mismatch")).to_contain_text("1")
    page.get_by_role("button", name="Tolerances").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as TOML").click()
    saved = tmp_path / "tolerances.toml"
    download.value.save_as(saved)
    plain, loose = (
        json.loads(firstdiff(folder, "--format", "json", *options))["summary"]["mismatch"]
        for options in ((), ("--tolerances", str(saved)))
    )
    assert (plain, loose) == (2, 1)


def test_the_diagnosis_is_in_the_words_of_the_terminal(page: Page, server: Server, tmp_path: Path) -> None:
    found = fd.compare(*unpack_demo(tmp_path))
    first = found.first_divergence
    assert first is not None
    assert found.diagnosis
    said = list(answer(found))
    on.opened(page, on.demo(server), f"/row/{first.pair}")
    causes = on.card(page, "Likely causes")
    for cause in found.diagnosis:
        confidence = f"confidence {cause.confidence:.2g}"
        shown = causes.get_by_role("listitem").filter(has=page.get_by_text(cause.cause, exact=True))
        for words in (confidence, cause.evidence, cause.fix, *cause.implies):
            expect(shown).to_contain_text(words)
    likeliest = found.diagnosis[0]
    assert f"Cause: {likeliest.cause} (confidence {likeliest.confidence:.2g}): {likeliest.evidence}" in said
    assert f"Fix: {likeliest.fix}" in said
    head = page.get_by_role("region", name="Comparison")
    expect(head).to_contain_text(likeliest.cause)
    expect(head).to_contain_text(f"confidence {likeliest.confidence:.2g}")


def test_a_cause_that_is_not_known_says_what_to_record(page: Page, server: Server, tmp_path: Path) -> None:
    """Two values are wrong, each in its own way: no cause explains that."""
    reference, candidate = on.mixed()
    candidate["layers.0.attn"][1, 2, 3] += 0.3
    candidate["layers.0.attn"][3, 1, 7] *= 1.7
    unclear = on.compared(server, tmp_path, reference, candidate)
    notes = fd.compare(reference, candidate).notes
    (note,) = (note.text for note in notes if note.code == "no_cause" and note.key == "layers.0.attn")
    assert "explains layers.0.attn; to know more, record" in note
    on.opened(page, unclear)
    expect(page.get_by_role("region", name="Comparison")).to_contain_text("cause unknown")
    page.get_by_role("link", name="layers.0.attn").click()
    causes = on.card(page, "Likely causes")
    expect(causes.get_by_text("unknown", exact=True)).to_be_visible()
    expect(causes).to_contain_text(note)
