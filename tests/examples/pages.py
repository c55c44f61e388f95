"""The pages of the diffusion example: built once, served as static files from any folder of a model."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import hatch_build
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.examples.verdicts import Generation
from tests.web.conftest import PATIENCE
from tests.web.watching import REFUSED, Console

WEB = Path(__file__).parents[2] / "examples" / "diffusion_text" / "web"


def build_pages(folder: Path) -> None:
    """Build the pages; the models come from elsewhere."""
    hatch_build.install_packages(WEB)
    hatch_build.npm("run", "build", "--", "--outDir", str(folder), "--emptyOutDir", folder=WEB)


class _Handler(SimpleHTTPRequestHandler):
    """The built pages, and every address under a mounted name from another folder."""

    def __init__(self, *args: Any, mounts: dict[str, Path], **options: Any) -> None:
        self._mounts = mounts
        super().__init__(*args, **options)

    def translate_path(self, path: str) -> str:
        name, _, rest = path.lstrip("/").partition("?")[0].partition("/")
        return str(self._mounts[name] / rest) if name in self._mounts else super().translate_path(path)

    def end_headers(self) -> None:
        """Keep models out of the cache: tests put other files under the same address within a second."""
        if self.path.lstrip("/").partition("/")[0] in self._mounts:
            self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@contextmanager
def serve(pages: Path, mounts: dict[str, Path]) -> Iterator[str]:
    """Serve the pages; yield their address. `mounts` may change meanwhile."""
    handler = partial(_Handler, directory=str(pages), mounts=mounts)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@contextmanager
def open_context(browser: Browser, address: str) -> Iterator[BrowserContext]:
    """Open a context whose console must stay quiet, but for files that are not there."""
    console = Console()
    context = browser.new_context(base_url=address, viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE)
    console.follow(context)
    yield context
    context.close()
    assert [complaint for complaint in console.complaints if REFUSED not in complaint] == []


def python_generation(weights: Path, seed: int, steps: int, prefix: str = "") -> Generation:
    """Return what the Python sampler does."""
    from generate import sampler_for  # type: ignore[import-not-found]
    from model import load_model  # type: ignore[import-not-found]
    from sampler import decode, fixed_characters  # type: ignore[import-not-found]

    model, vocab = load_model(weights)
    fixed = fixed_characters(prefix, "", vocab, model.config.block_size)
    taken = list(sampler_for(model).generate(seed, steps, fixed=fixed))
    first, last = decode(taken[0].ids[0], vocab), decode(taken[-1].sampled[0], vocab)
    return Generation(last, [step.changed for step in taken], first=first)


def python_text(weights: Path, seed: int, steps: int, prefix: str = "") -> str:
    """Return what the Python sampler writes."""
    return python_generation(weights, seed, steps, prefix).last


def open_demo(page: Page) -> None:
    page.goto("/index.html")
    expect(page.get_by_role("status")).to_contain_text("Ready")


def generate(page: Page, **fields: object) -> str:
    """Fill in the form of the demo, press Start and return the finished text."""
    for label, value in fields.items():
        page.get_by_label(label).fill(str(value))
    page.get_by_role("button", name="Reset").click()
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("status")).to_contain_text("Done.")
    return page.locator("#text").text_content() or ""


def open_debugger(context: BrowserContext) -> Page:
    page = context.new_page()
    page.goto("/debug.html")
    page.get_by_text("Faults to plant").click()
    return page


def press(page: Page, name: str) -> str:
    """Press a button of the debugger and return its verdict."""
    page.get_by_role("button", name=name).click()
    expect(page.get_by_role("button", name="Clear Logs")).to_be_enabled()
    return page.get_by_role("status").text_content() or ""


def load(page: Page, folder: str = "model") -> None:
    """Load a model into the debugger, or find out that it cannot be."""
    page.get_by_label("Folder of the model").fill(folder)
    press(page, "Clear Logs")
    press(page, "Load Model")


@contextmanager
def planted(page: Page, fault: str) -> Iterator[None]:
    """Switch a fault on for a while."""
    load(page)
    page.get_by_label(fault).check()
    expect(page.get_by_role("status")).to_have_text("Model loaded, with 1 planted fault.")
    try:
        yield
    finally:
        page.get_by_label(fault).uncheck()
    expect(page.get_by_role("status")).to_have_text("Model loaded.")
