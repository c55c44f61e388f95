"""The JavaScript client's recorder in a page of somebody else, and its way to `firstdiff serve`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Page

import firstdiff as fd
from tests.clients.javascript import built_client
from tests.web.serving import Server
from tests.web.watching import Console

TAPS = """
    const { Rng, ZipRecorder } = await import("/index.js");
    const rec = new ZipRecorder({ header: { seed: 42 } });
    rec.tap("noise", new Rng(42).fillNormal(new Float32Array(24)), [2, 3, 4]);
    rec.tap("ids", BigInt64Array.of(1n, -2n));
    rec.tap("logits", { type: "float16", dims: [2], data: Uint16Array.of(0x3c00, 0x7e00) });
    rec.tap("../Ω", 7);
"""


class Site(SimpleHTTPRequestHandler):
    """A page with nothing on it, and the client's files."""

    def do_GET(self) -> None:
        if self.path != "/":
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b'<!doctype html><link rel="icon" href="data:,">')

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def foreign() -> Iterator[str]:
    """The origin of a page that is not ours, with the client beside it."""
    handler = partial(Site, directory=str(built_client()))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{site.server_address[1]}"
        site.shutdown()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, foreign: str) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("home"), options=["--allow-origin", foreign])
    server.start()
    yield server
    server.stop()


@pytest.fixture
def page(new_context: Callable[..., BrowserContext], foreign: str) -> Page:
    page = new_context(base_url=foreign).new_page()
    page.goto("/")
    return page


def test_a_downloaded_trace_is_what_was_tapped(page: Page, tmp_path: Path) -> None:
    with page.expect_download() as download:
        page.evaluate(f'async () => {{ {TAPS} rec.download("page.trace.zip"); }}')
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    assert file.name == "page.trace.zip"
    trace = fd.open_trace(file)
    assert [tensor.key.name for tensor in trace] == ["noise", "ids", "logits", "../Ω"]
    assert fd.compare(file, file).verdict == "mismatch"  # for the NaN
    from firstdiff.rng import Rng

    expected = {
        "noise": Rng(42).normal((2, 3, 4)).astype(np.float32),
        "ids": np.array([1, -2]),
        "logits": np.array([0x3C00, 0x7E00], np.uint16).view(np.float16),
        "../Ω": np.array(7.0),
    }
    result = fd.compare(expected, file, equal_nan=True)
    assert result.verdict == "match", result
    assert {pair.metrics.max_abs for pair in result.pairs if pair.metrics} == {0.0}


def test_a_posted_trace_is_shown_and_compared(page: Page, server: Server) -> None:
    posted = page.evaluate(f"async (server) => {{ {TAPS} return rec.post(server); }}", server.url)
    assert server.settled(posted["comparison"])["state"] == "done"
    assert posted["address"].startswith(server.url)
    second = page.evaluate(
        f"async ([server, reference]) => {{ {TAPS} return rec.post(server + '/', {{ reference }}); }}",
        [server.url, posted["upload"]],
    )
    entry = server.settled(second["comparison"])
    assert (entry["kind"], entry["state"]) == ("pair", "done")


def test_a_page_that_is_not_allowed_hears_how_to_be(
    new_context: Callable[..., BrowserContext], foreign: str, server: Server, console: Console
) -> None:
    other = foreign.replace("127.0.0.1", "localhost")
    page = new_context(base_url=other).new_page()
    page.goto("/")
    message = page.evaluate(
        f"async (server) => {{ {TAPS} return rec.post(server).then(() => null, (error) => error.message); }}",
        server.url,
    )
    assert f"firstdiff serve --allow-origin {other}" in message
    console.complaints.clear()
