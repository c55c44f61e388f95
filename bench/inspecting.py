"""The inspector in Chromium: slices of 4 GB, overviews of 67 million cells, painting, and what stays in memory."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, CDPSession, Page, sync_playwright
from tests.tools import needs
from tests.web.comparisons import compared_at_length
from tests.web.conftest import FLAGS
from tests.web.serving import Server

from bench.row import Row, at_most

LARGE = (8192, 128, 1024)
PLANE = (4096, 16384)
MOVES, REPEATS = 31, 3
SWEEPS, SWEPT = 5, 100
SLICES = 1000
ON_SCREEN, FIRST, AGAIN = 100.0, 1000.0, 100.0
GROWTH = 1.1

# moves the slider of dimension 0 and returns the milliseconds until the cell of that index is painted
_MOVE = """
(to) => new Promise((done) => {
  const slider = document.querySelector('input[type=range][aria-label="Dimension 0"]');
  const begun = performance.now();
  slider.value = to;
  slider.dispatchEvent(new Event('input', { bubbles: true }));
  (function look() {
    if (!document.querySelector(`td[title^="[${to}, "]`)) return requestAnimationFrame(look);
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - begun)));
  })();
})
"""
# moves the slider in every frame, faster than answers come; returns the milliseconds from the last move to its cell
_SWEEP = """
([from, moves]) => new Promise((done) => {
  const slider = document.querySelector('input[type=range][aria-label="Dimension 0"]');
  let at = from, begun = 0;
  (function move() {
    at += 7;
    begun = performance.now();
    slider.value = at;
    slider.dispatchEvent(new Event('input', { bubbles: true }));
    if (at < from + 7 * moves) return requestAnimationFrame(move);
    (function look() {
      if (!document.querySelector(`td[title^="[${at}, "]`)) return requestAnimationFrame(look);
      requestAnimationFrame(() => done(performance.now() - begun));
    })();
  })();
})
"""
# opens the heat maps and returns the milliseconds until all three are painted
_HEAT = """
() => new Promise((done) => {
  const tab = [...document.querySelectorAll('[role=tab]')].find((tab) => tab.textContent === 'Heat maps');
  const begun = performance.now();
  tab.click();
  (function look() {
    const maps = [...document.querySelectorAll('[role=application] canvas')];
    if (maps.length < 3 || maps.some((map) => map.width === 300)) return requestAnimationFrame(look);
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - begun)));
  })();
})
"""
# the same million cells through a table of colours onto a 2-d canvas, and as a texture through a shader of WebGL
_PAINT = """
(repeats) => {
  const [high, wide] = [1024, 1024];
  const cells = Float32Array.from({ length: high * wide }, (_, at) => Math.sin(at));
  const table = Uint32Array.from({ length: 1025 }, (_, step) => 0xff000000 | step);
  const median = (work) => {
    const times = Array.from({ length: repeats }, () => {
      const begun = performance.now();
      work();
      return performance.now() - begun;
    }).sort((one, other) => one - other);
    return times[repeats >> 1];
  };
  const flat = document.createElement('canvas');
  [flat.width, flat.height] = [wide, high];
  const plain = flat.getContext('2d');
  const canvas = median(() => {
    const image = new ImageData(wide, high);
    const pixels = new Uint32Array(image.data.buffer);
    for (let at = 0; at < cells.length; at++) pixels[at] = table[Math.round((cells[at] + 1) * 512)];
    plain.putImageData(image, 0, 0);
    plain.getImageData(0, 0, 1, 1);
  });
  const other = document.createElement('canvas');
  [other.width, other.height] = [wide, high];
  const gl = other.getContext('webgl2');
  if (!gl) return { canvas, webgl: null };
  const shader = (kind, text) => {
    const made = gl.createShader(kind);
    gl.shaderSource(made, text);
    gl.compileShader(made);
    return made;
  };
  const program = gl.createProgram();
  gl.attachShader(program, shader(gl.VERTEX_SHADER, `#version 300 es
    in vec2 at; out vec2 place;
    void main() { place = at * 0.5 + 0.5; gl_Position = vec4(at, 0.0, 1.0); }`));
  gl.attachShader(program, shader(gl.FRAGMENT_SHADER, `#version 300 es
    precision highp float; uniform sampler2D cells; in vec2 place; out vec4 colour;
    void main() {
      float v = texture(cells, place).r;
      vec3 end = v < 0.0 ? vec3(0.08, 0.33, 0.64) : vec3(0.79, 0.36, 0.04);
      colour = vec4(mix(vec3(0.98), end, abs(v)), 1.0);
    }`));
  gl.linkProgram(program);
  gl.useProgram(program);
  gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
  gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([-1, -1, 3, -1, -1, 3]), gl.STATIC_DRAW);
  gl.enableVertexAttribArray(0);
  gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0);
  gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
  const one = new Uint8Array(4);
  const webgl = median(() => {
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.R32F, wide, high, 0, gl.RED, gl.FLOAT, cells);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
    gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, one);
  });
  return { canvas, webgl };
}
"""


def run(folder: Path) -> list[Row]:
    """The rows of this part, medians, in a window of 1280 x 900."""
    server = Server(folder)
    server.start()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=needs("chromium"), args=FLAGS)
            return [*_slices(server, browser, folder), *_overviews(server, browser, folder), *_painting(browser)]
    finally:
        server.stop()


def _slices(server: Server, browser: Browser, folder: Path) -> Iterator[Row]:
    page = _inspector(server, browser, _written(folder / "large", LARGE))
    random = np.random.default_rng(1)
    page.evaluate(_MOVE, 1)
    times = [page.evaluate(_MOVE, int(to)) for to in random.permutation(np.arange(2, LARGE[0]))[:MOVES]]
    yield at_most("4 GB tensor: slice on screen after a slider moved", statistics.median(times), "ms", ON_SCREEN)
    answered: list[str] = []
    page.on("requestfinished", lambda request: answered.append(request.url) if "/slice" in request.url else None)
    late = [page.evaluate(_SWEEP, [from_, SWEPT]) for from_ in range(0, SWEEPS * 10 * SWEPT, 10 * SWEPT)]
    yield at_most(f"4 GB tensor: after the last of {SWEPT} moves in a row", statistics.median(late), "ms", ON_SCREEN)
    yield Row("4 GB tensor: requests of these that were not dropped", len(answered) / SWEEPS, f"of {2 * SWEPT}")
    tools = page.context.new_cdp_session(page)
    for to in range(SLICES // 10):
        page.evaluate(_MOVE, 8 * to + 3)
    heap, resident = _heap(tools), _resident(server)
    for to in range(SLICES):
        page.evaluate(_MOVE, 8 * to + 4)
    yield at_most(f"heap of the page after {SLICES:,} slices", _heap(tools) / heap, "x", GROWTH)
    yield at_most(f"memory of the server after {SLICES:,} slices", _resident(server) / resident, "x", GROWTH)
    page.context.close()


def _overviews(server: Server, browser: Browser, folder: Path) -> Iterator[Row]:
    first, again = [], []
    for place in range(REPEATS):
        page = _inspector(server, browser, _written(folder / f"plane{place}", PLANE, seed=place))
        first.append(page.evaluate(_HEAT))
        page.get_by_role("tab", name="Values").click()
        again.append(page.evaluate(_HEAT))
        page.context.close()
    yield at_most("4096 x 16384: three maps painted, first time", statistics.median(first), "ms", FIRST)
    yield at_most("4096 x 16384: three maps painted, again", statistics.median(again), "ms", AGAIN)


def _painting(browser: Browser) -> Iterator[Row]:
    page = browser.new_page()
    found: dict[str, Any] = page.evaluate(_PAINT, 15)
    yield Row("a million cells on a 2-d canvas", found["canvas"], "ms")
    if found["webgl"] is not None:
        yield Row("a million cells through WebGL", found["webgl"], "ms")
    page.close()


def _inspector(server: Server, browser: Browser, path: Path) -> Page:
    """The values of the one tensor of a trace that is compared with itself."""
    comparison = compared_at_length(server, path, path)
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.goto(f"{server.url}/c/{comparison}/row/0?view=values")
    page.get_by_role("grid", name="Values").wait_for()
    return page


def _written(folder: Path, shape: tuple[int, ...], seed: int = 0) -> Path:
    """Real data on disk: a file with holes would be read faster than any other."""
    folder.mkdir()
    random = np.random.default_rng(seed)
    file = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, shape)
    for begin in range(0, shape[0], 128):
        part = file[begin : begin + 128]
        part[:] = random.standard_normal(part.shape, np.float32)
    file.flush()
    return folder


def _heap(tools: CDPSession) -> float:
    tools.send("HeapProfiler.collectGarbage")
    return float(tools.send("Runtime.getHeapUsage")["usedSize"])


def _resident(server: Server) -> float:
    """Private memory of the server; pages of files that are mapped belong to the system."""
    lines = Path(f"/proc/{server.process_id}/status").read_text(encoding="utf-8").splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("RssAnon")))
