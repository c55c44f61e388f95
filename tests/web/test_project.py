"""The project on the start page: it follows `validate`, and opens the comparison behind it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.web.serving import FIRSTDIFF, Server
from tests.web.watching import axe, overflows
from tests.workflows.scratch import changed, scratch_project, write_port


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scratch_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def server(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that was started in the project's folder."""
    server = Server(tmp_path_factory.mktemp("home"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        server.start()
    yield server
    server.stop()


def run(project: Path, command: str) -> None:
    subprocess.run([FIRSTDIFF, command], cwd=project, capture_output=True, check=False)


def test_the_page_follows_validations_and_opens_the_comparison(page: Page, project: Path) -> None:
    page.goto("/")
    section = page.get_by_role("region", name="Project")
    expect(section).to_contain_text("Nothing was validated yet")
    run(project, "golden")
    run(project, "validate")
    row = section.get_by_role("row", name="encoder")
    expect(row).to_contain_text("passes")
    write_port(project, changed("x / 1.5", "x / 1.5 + 0.25"))
    run(project, "validate")
    expect(row).to_contain_text("fails")
    expect(row).to_contain_text("encoder.norm")
    expect(row.get_by_role("img")).to_have_accessible_name("Runs, the oldest first: passes, fails")
    expect(section).to_contain_text("Cause: offset.constant at encoder.norm. Fix: take 0.25 away")
    section.locator("summary", has_text="Plan").click()
    expect(section).to_contain_text("firstdiff validate --component encoder")
    assert axe(page) == []
    assert not overflows(page)
    section.get_by_role("button", name="Open the comparison").click()
    expect(page).to_have_url(re.compile(r"/c/[^/]+$"))
    expect(page.get_by_role("main")).to_contain_text("encoder.norm")
