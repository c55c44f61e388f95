"""Bad input: a clear sentence on the page, and the other files still work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.web import dumps
from tests.web.serving import Server


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return dumps.write_zip(tmp_path / "good.zip", dumps.files(dumps.tensors()))


def no_archive(folder: Path) -> Path:
    (folder / "no.zip").write_bytes(b"this is no archive")
    return folder / "no.zip"


def empty_file(folder: Path) -> Path:
    (folder / "zero.npy").write_bytes(b"")
    return folder / "zero.npy"


def send(page: Page, reference: Path, candidate: Path) -> None:
    page.goto("/")
    page.get_by_label("Reference files").set_input_files(reference)
    page.get_by_label("Candidate files").set_input_files(candidate)
    page.get_by_role("button", name="Compare Models").click()
    page.wait_for_url("**/c/*")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        pytest.param(no_archive, "no.zip: is of no format that firstdiff reads", id="no archive"),
        pytest.param(lambda at: dumps.write_zip(at / "none.zip", {}), "none.zip: holds no tensors", id="empty archive"),
        pytest.param(lambda at: dumps.bomb(at / "bomb.zip"), "over 100 times its size, as a bomb does", id="bomb"),
        pytest.param(empty_file, "zero.npy: is empty", id="empty file"),
    ],
)
def test_what_cannot_be_opened_is_said_in_one_sentence(
    page: Page, good: Path, tmp_path: Path, make: Callable[[Path], Path], sentence: str
) -> None:
    send(page, good, make(tmp_path))
    expect(page.get_by_role("alert")).to_contain_text(sentence)
    expect(page.get_by_role("button", name="Run again")).to_be_visible()
    page.get_by_role("link", name="To the start page", exact=True).click()
    expect(page.get_by_role("listitem").first).to_contain_text(sentence)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        pytest.param(lambda at: dumps.encrypted_zip(at / "locked.zip"), "is encrypted", id="encrypted"),
        pytest.param(lambda at: dumps.hostile_pickle(at / "evil.pth", at / "touched"), "builtins.open", id="pickle"),
    ],
)
def test_what_holds_one_unreadable_tensor_has_compared_nothing(
    page: Page, server: Server, good: Path, tmp_path: Path, make: Callable[[Path], Path], sentence: str
) -> None:
    send(page, good, make(tmp_path))
    expect(page.get_by_text(sentence).first).to_be_visible()
    assert server.settled(page.url.rpartition("/")[2])["verdict"] == "not_compared"
    assert not (tmp_path / "touched").exists()
    page.goto("/")
    expect(page.get_by_role("listitem").first).to_contain_text("not compared")


def test_one_bad_file_does_not_spoil_the_others(page: Page, server: Server, good: Path, tmp_path: Path) -> None:
    members = dumps.files(dumps.tensors()) | {"layers.0.ln_1.npy": b"rubbish"}
    send(page, good, dumps.write_zip(tmp_path / "port.zip", members))
    summary = server.settled(page.url.rpartition("/")[2])["summary"]
    assert (summary["match"], summary["failed"]) == (8, 1)


def test_names_that_mean_harm_are_refused_and_the_others_compared(page: Page, server: Server, tmp_path: Path) -> None:
    names = ["../../evil.npy", "/etc/evil.npy", "C:\\evil.npy", "<img src=x onerror=alert(1)>.npy"]
    archive = dumps.write_zip(tmp_path / "a.zip", {name: dumps.npy(np.ones(n + 2)) for n, name in enumerate(names)})
    before = set(tmp_path.parent.rglob("evil*"))
    send(page, archive, archive)
    entry = server.settled(page.url.rpartition("/")[2])
    assert (entry["summary"]["match"], entry["summary"]["failed"]) == (1, 3)
    assert set(tmp_path.parent.rglob("evil*")) == before


def test_a_file_name_that_is_markup_is_shown_as_text(page: Page, server: Server) -> None:
    name = "<img src=x onerror=alert(1)>.npy"
    page.goto("/")
    page.get_by_label("Reference files").set_input_files({"name": name, "mimeType": "", "buffer": dumps.npy([1.0])})
    expect(page.get_by_role("region", name="Reference").get_by_text(name, exact=True)).to_be_visible()
    page.get_by_role("button", name="Look at it").click()
    page.wait_for_url("**/c/*")
    assert server.settled(page.url.rpartition("/")[2])["state"] == "done"
    page.goto("/")
    expect(page.get_by_role("link", name=name)).to_be_visible()


def test_one_side_empty_is_said_before_anything_is_sent(page: Page, good: Path) -> None:
    page.goto("/")
    page.get_by_role("button", name="Compare Models").click()
    expect(page.get_by_role("alert")).to_contain_text("Both sides are empty")
    page.get_by_label("Reference files").set_input_files(good)
    page.get_by_role("button", name="Compare Models").click()
    expect(page.get_by_role("alert")).to_contain_text("The candidate is empty: drop its files or give its path")
    expect(page.get_by_role("region", name="Reference").get_by_text("good.zip")).to_be_visible()


def test_both_the_same_is_a_match(page: Page, server: Server, good: Path) -> None:
    send(page, good, good)
    entry = server.settled(page.url.rpartition("/")[2])
    assert (entry["verdict"], entry["summary"]["match"]) == ("match", 9)


def test_a_path_that_does_not_exist_is_said_and_the_form_is_kept(page: Page, tmp_path: Path) -> None:
    page.goto("/")
    page.get_by_label("Reference path").fill(str(tmp_path / "nowhere"))
    page.get_by_label("Candidate path").fill(str(tmp_path))
    page.get_by_role("button", name="Compare Models").click()
    expect(page.get_by_role("alert")).to_contain_text("nowhere does not exist; check the path")
    expect(page.get_by_label("Reference path")).to_have_value(str(tmp_path / "nowhere"))


def test_rules_that_are_no_toml_are_refused_with_a_sentence(page: Page, good: Path) -> None:
    page.goto("/")
    page.get_by_label("Reference path").fill(str(good))
    page.get_by_label("Candidate path").fill(str(good))
    page.locator("summary", has_text="Options").click()
    page.get_by_label("Tolerance rules (TOML)").fill("[[tolerances")
    page.get_by_role("button", name="Compare Models").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("Tolerance rules (TOML)")).to_have_value("[[tolerances")


def test_a_comparison_that_is_gone_is_said(page: Page) -> None:
    page.goto("/c/doesnotexist")
    expect(page.get_by_text("There is no such comparison")).to_be_visible()
    page.get_by_role("link", name="To the start page", exact=True).click()
    expect(page.get_by_role("heading", name="Where do two runs part?")).to_be_visible()
