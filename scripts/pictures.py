"""Pictures for the documentation: of the page, and of a terminal."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

FIRSTDIFF = (sys.executable, "-m", "firstdiff")
PATIENCE_MS = 300_000
_STYLE = (
    "display: inline-block; max-width: 1120px; margin: 0; padding: 14px 18px; white-space: pre-wrap; "
    "background: #1b1d23; color: #d6d8de; font: 13px/1.35 'DejaVu Sans Mono', monospace"
)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start the system's Chromium, which needs no sandbox as root."""
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    sandbox = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=executable, args=sandbox)
        yield browser
        browser.close()


@contextmanager
def open_page(*command: str, folder: Path | None = None, size: tuple[int, int]) -> Iterator[Page]:
    """Start `firstdiff serve` or `demo` and open its page."""
    with tempfile.TemporaryDirectory() as home:
        words = [*FIRSTDIFF, *command, "--no-open", "--port", "0", "--home", home]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, encoding="utf-8", env=environment) as server:
            try:
                assert server.stdout is not None
                address = next(found[0] for line in server.stdout if (found := re.search(r"http://\S+", line)))
                with open_browser() as browser:
                    page = browser.new_page(viewport={"width": size[0], "height": size[1]})
                    page.set_default_timeout(PATIENCE_MS)
                    page.goto(address)
                    yield page
            finally:
                server.terminate()


def picture_comparison(page: Page, target: Path) -> None:
    """Write a picture of a comparison, with the rows that differ, once it is made."""
    page.get_by_role("button", name=re.compile("mismatch$")).click()
    page.mouse.move(0, 0)
    page.wait_for_timeout(1000)  # the chart and the rows come to rest
    page.screenshot(path=target)


def run_in_terminal(command: Sequence[str], folder: Path, environment: Mapping[str, str], start: str = "") -> str:
    """Run a command of firstdiff and return what it prints, with its colours.

    start: how the first line begins that is shown; all before it is left out
    """
    settings = {**os.environ, **environment, "FORCE_COLOR": "1", "COLUMNS": "120"}
    ran = subprocess.run(
        [*FIRSTDIFF, *command], cwd=folder, env=settings, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
    )
    printed = ran.stdout.decode()
    found = re.search(rf"^(?:\x1b\[[\d;]*m)*{re.escape(start)}", printed, re.MULTILINE)
    variables = "".join(f"{name}={value} " for name, value in environment.items())
    left_out = "…\n" if found and found.start() else ""
    return f"$ {variables}firstdiff {' '.join(command)}\n{left_out}{printed[found.start() if found else 0 :]}"


def picture_terminal(browser: Browser, text: str, target: Path) -> None:
    """Write a picture of text with colours, as a terminal shows it."""
    from rich.console import Console
    from rich.terminal_theme import DIMMED_MONOKAI
    from rich.text import Text

    console = Console(record=True, width=160, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(text), soft_wrap=True, end="")
    html = console.export_html(theme=DIMMED_MONOKAI, inline_styles=True, code_format="{code}")
    page = browser.new_page(viewport={"width": 1280, "height": 860})
    page.set_content(f'<body style="margin: 0"><pre style="{_STYLE}">{html}</pre></body>')
    page.locator("pre").screenshot(path=target)
    page.close()
