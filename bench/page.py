"""The comparison page in Chromium: how soon it can be used, how ten thousand rows scroll, what stays in memory."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, CDPSession, Page, sync_playwright
from tests.tools import needs
from tests.web.comparisons import compared_at_length
from tests.web.conftest import FLAGS
from tests.web.serving import Server

from bench.row import Row, at_most

REPEATS = 5
USABLE, JUDGED = 1.0, 0.5
FRAME = 1000 / 60
STEP, FRAMES, ROUNDS = 240, 240, 6
GROWTH = 1.05
ROW = '[role=treegrid] [role=row][id^="row-"]'

# notes the time at which rows have been painted, counted from the start of the navigation
_WATCH = f"""
window.usable = new Promise((done) => {{
  (function look() {{
    if (!document.querySelector('{ROW}')) return requestAnimationFrame(look);
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())));
  }})();
}});
"""
# scrolls by a step in every frame and returns the milliseconds between frames
_SCROLL = """
([step, frames]) => new Promise((done) => {
  const times = [];
  let last = performance.now();
  function frame(now) {
    times.push(now - last);
    last = now;
    if (times.length > frames) return done(times.slice(1));
    scrollBy(0, step);
    requestAnimationFrame(frame);
  }
  requestAnimationFrame(frame);
})
"""
# types another K and returns the milliseconds until the counts have followed
_JUDGE = """
() => new Promise((done) => {
  const field = document.querySelector('.panel input[type=text]');
  const head = document.querySelector('section[aria-label=Comparison]');
  const begun = performance.now();
  const observer = new MutationObserver(() => {
    if (!head.textContent.includes('tried on this page')) return;
    observer.disconnect();
    requestAnimationFrame(() => done(performance.now() - begun));
  });
  observer.observe(head, { subtree: true, childList: true, characterData: true });
  field.value = '1e9';
  field.dispatchEvent(new Event('input', { bubbles: true }));
})
"""


def run(folder: Path) -> list[Row]:
    """The rows of this part, medians of a few runs, in a window of 1280 x 900."""
    server = Server(folder)
    server.start()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=needs("chromium"), args=FLAGS)
            return [*_opening(server, browser, folder), *_scrolling(server, browser, folder)]
    finally:
        server.stop()


def _opening(server: Server, browser: Browser, folder: Path) -> Iterator[Row]:
    address = _compared(server, folder, 1_000)
    usable, judged = [], []
    for _ in range(REPEATS):
        page = _page(browser)
        page.add_init_script(_WATCH)
        page.goto(address)
        usable.append(page.evaluate("window.usable") / 1000)
        page.get_by_role("button", name="Tolerances").click()
        judged.append(page.evaluate(_JUDGE) / 1000)
        page.context.close()
    yield at_most("1,000 pairs: usable after", statistics.median(usable), "s", USABLE)
    yield at_most("1,000 pairs: judged by another tolerance after", statistics.median(judged), "s", JUDGED)


def _scrolling(server: Server, browser: Browser, folder: Path) -> Iterator[Row]:
    page = _page(browser)
    page.add_init_script(_WATCH)
    page.goto(_compared(server, folder, 10_000))
    yield Row("10,000 pairs: usable after", page.evaluate("window.usable") / 1000, "s")
    tools = page.context.new_cdp_session(page)
    tools.send("Performance.enable")
    turns = sorted((_scrolled(page, tools) for _ in range(REPEATS)), key=lambda found: sum(found[0]))
    times, work = turns[len(turns) // 2]
    title = "10,000 rows scrolled"
    yield at_most(f"{title}: median of frame times", statistics.median(times), "ms", round(FRAME * 1.05, 1))
    yield at_most(f"{title}: 95 % of frame times", times[int(len(times) * 0.95)], "ms", round(FRAME * 1.5, 1))
    yield at_most(f"{title}: work in a frame", work, "ms", round(FRAME, 1))
    yield Row(f"{title}: lines in the page", page.locator(ROW).count(), "")
    _up_and_down(page)
    before = _heap(tools)
    for _ in range(ROUNDS):
        _up_and_down(page)
    after = _heap(tools)
    yield Row(f"{title}: heap", after / 1e6, "MB")
    yield at_most(f"{title}: heap after {ROUNDS} times up and down", after / before, "x", GROWTH)


def _page(browser: Browser) -> Page:
    return browser.new_context(viewport={"width": 1280, "height": 900}).new_page()


def _compared(server: Server, folder: Path, pairs: int) -> str:
    """The address of a comparison of so many small pairs, every tenth of which differs."""
    random = np.random.default_rng(0)
    names = [f"layers.{number // 20}.block.part_{number % 20}" for number in range(pairs)]
    reference = {name: random.standard_normal(16).astype(np.float32) for name in names}
    candidate = {name: reference[name] + np.float32(0.01 * (place % 10 == 9)) for place, name in enumerate(names)}
    sides = folder / f"reference-{pairs}.npz", folder / f"candidate-{pairs}.npz"
    for file, arrays in zip(sides, (reference, candidate), strict=True):
        np.savez(file, **arrays)
    return f"{server.url}/c/{compared_at_length(server, *sides)}?group=none"


def _scrolled(page: Page, tools: CDPSession) -> tuple[list[float], float]:
    """The times of frames in order of length, and the work in one of them, in milliseconds."""
    busy = _busy(tools)
    times = sorted(page.evaluate(_SCROLL, [STEP, FRAMES]))
    return times, (_busy(tools) - busy) * 1000 / len(times)


def _up_and_down(page: Page) -> None:
    for step in (20 * STEP, -20 * STEP):
        page.evaluate(_SCROLL, [step, 60])


def _busy(tools: CDPSession) -> float:
    """Seconds the page's thread has worked."""
    metrics = tools.send("Performance.getMetrics")["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))


def _heap(tools: CDPSession) -> float:
    tools.send("HeapProfiler.collectGarbage")
    return float(tools.send("Runtime.getHeapUsage")["usedSize"])
