"""Checks for every page: no error on the console, no request to another machine, no violation found by axe."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request

AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
# the browser's own note of an answer that is no success; what the page makes of it is what tests look at
REFUSED = "Failed to load resource"
HERE = ("127.0.0.1", "localhost")


class Console:
    """Collects what pages of a context complain about."""

    def __init__(self) -> None:
        self.complaints: list[str] = []

    def follow(self, context: BrowserContext) -> None:
        context.on("console", self._said)
        context.on("request", self._asked)
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))

    def _asked(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob") and address.hostname not in HERE:
            self.complaints.append(f"a request left the machine: {request.method} {request.url}")

    def _said(self, message: ConsoleMessage) -> None:
        address = message.location.get("url", "")
        from_api = REFUSED in message.text and "/api/" in address
        # the browser takes its time with the icon: a server that a test stops may be gone before it is there
        cut_off = "net::ERR_" in message.text and address.endswith("/icon.svg")
        if message.type in ("error", "warning") and not from_api and not cut_off:
            self.complaints.append(f"{message.type}: {message.text} ({message.location})")


@cache
def _axe_source() -> str:
    return AXE.read_text(encoding="utf-8")


def axe(page: Page) -> list[str]:
    """Every violation that axe finds on the page as it is now: rule, help and the elements it holds for."""
    page.evaluate(_axe_source())
    found: dict[str, Any] = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [
        f"{violation['id']}: {violation['help']}: {[node['html'][:200] for node in violation['nodes']]}"
        for violation in found["violations"]
    ]


def overflows(page: Page) -> bool:
    """True if the page is wider than its window."""
    return bool(page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))
