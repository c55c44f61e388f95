"""A real server, a real Chromium. Tests find things by role and name, and fail when the console complains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect

from tests.tools import needs
from tests.web.serving import Server
from tests.web.watching import Console

FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
HERE = Path(__file__).parent
# minutes of uploads, kills and drawings: `make test-page` runs them, `make test` the rest
LONG = frozenset(
    (
        "test_comparison_figures test_comparison_pairing test_comparison_reports test_comparison_states "
        "test_comparison_tolerances test_inspect_changes test_inspect_finding test_inspect_mapping test_inspect_views "
        "test_recent test_running test_uploads"
    ).split()
)
# milliseconds: a busy machine is no failure
PATIENCE = 60_000

expect.set_options(timeout=PATIENCE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of one file run in one worker, so that they share its server and its browser."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.xdist_group(f"web-{item.path.stem}"))
            if item.path.stem in LONG:
                item.add_marker(pytest.mark.long)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a home of its own."""
    server = Server(tmp_path_factory.mktemp("home"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    browser = playwright.chromium.launch(executable_path=needs("chromium"), args=FLAGS)
    yield browser
    browser.close()


@pytest.fixture
def console() -> Console:
    """The console errors of pages so far; tests that provoke one may read and clear it."""
    return Console()


@pytest.fixture
def new_context(browser: Browser, server: Server, console: Console) -> Iterator[Callable[..., BrowserContext]]:
    """Makes contexts (apart from each other, as private windows are) with the options of Playwright."""
    contexts: list[BrowserContext] = []

    def make(**options: object) -> BrowserContext:
        chosen = {"viewport": {"width": 1280, "height": 900}, "base_url": server.url, **options}
        context = browser.new_context(**chosen)  # type: ignore[arg-type]
        context.set_default_timeout(PATIENCE)
        console.follow(context)
        contexts.append(context)
        return context

    yield make
    for context in contexts:
        context.close()
    assert console.complaints == []


@pytest.fixture
def page(new_context: Callable[..., BrowserContext]) -> Page:
    """A page at 1280 x 900 whose addresses are relative to the server's."""
    return new_context().new_page()
