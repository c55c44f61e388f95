"""Uploads: they show how far they are, can be stopped, and go on after any break."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.web.serving import Server

PIECE = 8 << 20
PIECES = "**/api/uploads/*/files/*"


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """One tensor of a little over four pieces, of values no other test has sent."""
    values = np.frombuffer(os.urandom(4 * PIECE + 1000), np.uint8)
    path = tmp_path / "large.npy"
    np.save(path, values)
    return path


class Pieces:
    """Counts the pieces a page sends, and does something instead of sending the one of a given number."""

    def __init__(self, page: Page) -> None:
        self.offsets: list[int] = []
        self._page = page
        self._at: int | None = None
        self._act: Callable[[Route], None] = lambda route: route.continue_()
        page.route(PIECES, self._piece)

    def at(self, number: int, act: Callable[[Route], None]) -> None:
        self._at, self._act = number, act

    def _piece(self, route: Route) -> None:
        self.offsets.append(int(route.request.url.rpartition("=")[2]))
        if self._at is not None and len(self.offsets) == self._at:
            self._act(route)
        else:
            route.continue_()


@pytest.fixture
def pieces(page: Page) -> Iterator[Pieces]:
    yield Pieces(page)
    page.unroute_all(behavior="ignoreErrors")


def choose(page: Page, path: Path) -> None:
    page.get_by_label("Reference files").set_input_files(path)


def look(page: Page) -> None:
    page.get_by_role("button", name="Look at it").click()


def stored(server: Server, page: Page) -> bytes:
    """The digest of what arrived."""
    expect(page).to_have_url(re.compile(r"/c/[^/]+$"))
    entry = server.settled(page.url.rpartition("/")[2])
    assert entry["state"] == "done", entry["error"]
    upload = entry["reference"]["upload"]
    assert all(file["have"] == file["size"] for file in server.ask("GET", f"/uploads/{upload}")["files"])
    (file,) = (path for path in (server.home / "uploads" / upload).rglob("*") if path.is_file())
    return digest(file)


def digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def test_a_large_file_travels_in_pieces_and_arrives_whole(
    page: Page, server: Server, pieces: Pieces, large: Path
) -> None:
    page.goto("/")
    choose(page, large)
    look(page)
    assert stored(server, page) == digest(large)
    assert pieces.offsets == [0, PIECE, 2 * PIECE, 3 * PIECE, 4 * PIECE]


def test_a_server_killed_mid_upload_is_waited_for(page: Page, server: Server, pieces: Pieces, large: Path) -> None:
    def crash(route: Route) -> None:
        server.kill()
        route.continue_()

    page.goto("/")
    choose(page, large)
    pieces.at(3, crash)
    look(page)
    expect(page.get_by_text("waiting for the server, which does not answer")).to_be_visible()
    server.start()
    assert stored(server, page) == digest(large)
    assert pieces.offsets.count(0) == 1, "what had arrived was sent again"


def test_an_upload_goes_on_after_a_reload(page: Page, server: Server, pieces: Pieces, large: Path) -> None:
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto("/")
    choose(page, large)
    pieces.at(3, lambda route: page.evaluate("void setTimeout(() => location.reload())"))
    look(page)
    expect(page.get_by_text("Interrupted at 49 %: choose the same files again")).to_be_visible()
    page.get_by_role("button", name="Compare Models").click()
    expect(page.get_by_role("alert")).to_contain_text("The upload of the reference was interrupted")
    choose(page, large)
    look(page)
    assert stored(server, page) == digest(large)
    assert pieces.offsets == [0, PIECE, 2 * PIECE, 2 * PIECE, 3 * PIECE, 4 * PIECE]


def test_a_file_that_changed_in_between_is_sent_anew(page: Page, server: Server, pieces: Pieces, large: Path) -> None:
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto("/")
    choose(page, large)
    pieces.at(3, lambda route: page.evaluate("void setTimeout(() => location.reload())"))
    look(page)
    expect(page.get_by_text("Interrupted at 49 %")).to_be_visible()
    data = bytearray(large.read_bytes())
    data[PIECE + 5] ^= 1
    large.write_bytes(data)
    choose(page, large)
    look(page)
    assert stored(server, page) == digest(large)


def test_cancel_stops_and_comparing_again_goes_on(page: Page, server: Server, pieces: Pieces, large: Path) -> None:
    page.goto("/")
    choose(page, large)
    pieces.at(2, lambda route: None)
    look(page)
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "24")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("24 % sent; it goes on from there.")).to_be_visible()
    look(page)
    assert stored(server, page) == digest(large)
    assert pieces.offsets == [0, PIECE, PIECE, 2 * PIECE, 3 * PIECE, 4 * PIECE]


def test_a_piece_damaged_on_its_way_is_sent_again(page: Page, server: Server, pieces: Pieces, large: Path) -> None:
    page.goto("/")
    choose(page, large)
    pieces.at(2, lambda route: route.continue_(headers={**route.request.headers, "x-digest": "0" * 64}))
    look(page)
    assert stored(server, page) == digest(large)


def test_a_slow_network_shows_speed_and_time_left(page: Page, large: Path) -> None:
    session = page.context.new_cdp_session(page)
    page.goto("/")
    choose(page, large)
    session.send("Network.enable")
    limits = {"offline": False, "latency": 20, "downloadThroughput": 1e6, "uploadThroughput": 2e6}
    session.send("Network.emulateNetworkConditions", limits)
    look(page)
    bar = page.get_by_role("progressbar", name="Sending the reference")
    expect(bar).to_have_attribute("aria-valuetext", re.compile(r"of 33\.6 MB · [\d.]+ MB/s · \d+ s left"))
    expect(page.get_by_label("Reference files")).to_be_disabled()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Look at it")).to_be_enabled()


def test_two_tabs_send_the_same_file_at_once(
    new_context: Callable[..., BrowserContext], server: Server, large: Path
) -> None:
    context = new_context()
    first, second = context.new_page(), context.new_page()
    for tab in (first, second):
        tab.goto("/")
        choose(tab, large)
    look(first)
    look(second)
    assert stored(server, first) == digest(large)
    assert stored(server, second) == digest(large)


def test_a_file_deleted_before_it_is_sent_is_named(page: Page, large: Path) -> None:
    page.goto("/")
    choose(page, large)
    large.unlink()
    look(page)
    expect(page.get_by_role("alert")).to_contain_text("“large.npy” could not be read")
    expect(page.get_by_role("region", name="Reference").get_by_text("large.npy", exact=True)).to_be_visible()


def test_files_of_equal_names_in_different_folders_are_kept_apart(page: Page, server: Server, tmp_path: Path) -> None:
    for run in ("a", "b"):
        for part, length in (("left", 4), ("right", 9)):
            folder = tmp_path / run / part
            folder.mkdir(parents=True)
            np.save(folder / "x.npy", np.ones(length))
    page.goto("/")
    page.get_by_label("Reference folder").set_input_files(tmp_path / "a")
    page.get_by_label("Candidate folder").set_input_files(tmp_path / "b")
    page.get_by_role("button", name="Compare Models").click()
    expect(page).to_have_url(re.compile(r"/c/[^/]+$"))
    entry = server.settled(page.url.rpartition("/")[2])
    assert (entry["verdict"], entry["summary"]["match"]) == ("match", 2)


def test_without_a_secure_context_digests_are_our_own(
    new_context: Callable[..., BrowserContext], server: Server, large: Path
) -> None:
    context = new_context()
    context.add_init_script("Object.defineProperty(window, 'isSecureContext', {value: false})")
    page = context.new_page()
    page.goto("/")
    choose(page, large)
    look(page)
    assert stored(server, page) == digest(large)
