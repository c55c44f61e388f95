"""Record the sampler example: the traces of `firstdiff demo diffusion`, and the pictures of docs/web-inference.md.

python scripts/record-sampler.py    # needs torch, onnx, onnxruntime, npm, Chromium and Playwright

The reference is the Python sampler, the candidate the one in the browser, with a fault planted in its debugger.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pictures import open_browser
from playwright.sync_api import Browser, Page, expect

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "diffusion_text"
DEMO = ROOT / "src" / "firstdiff" / "demo" / "diffusion"
IMAGES = ROOT / "docs" / "images"
FAULT = "Stagger: wrong sign"
DEMO_STEPS = 3
MINUTE = 60_000


def run(*command: object, folder: Path = EXAMPLE) -> None:
    subprocess.run([str(part) for part in command], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def export(weights: Path, target: Path) -> None:
    """Write the model and what Python computes with it, as the guide does."""
    run(sys.executable, "export_to_onnx.py", "--weights", weights, "--out", target, "--faulty")
    run(sys.executable, "debug_python.py", "--weights", weights, "--model", target)


def shorten(weights: Path, target: Path) -> Path:
    """Copy the weights with fewer steps: a trace of 64 is 13 MB."""
    shutil.copytree(weights, target)
    about = json.loads((target / "metadata.json").read_text("utf-8"))
    (target / "metadata.json").write_text(json.dumps(about | {"steps": DEMO_STEPS}), encoding="utf-8")
    return target


class Handler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder; yield its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def press(page: Page, name: str) -> None:
    """Press a button of the debugger and wait until it has done its work."""
    page.get_by_role("button", name=name).click()
    expect(page.get_by_role("button", name="Clear Logs")).to_be_enabled(timeout=5 * MINUTE)


def open_debugger(browser: Browser, address: str, model: str, fault: str | None) -> Page:
    page = browser.new_page(base_url=address, viewport={"width": 1280, "height": 800})
    page.set_default_timeout(5 * MINUTE)
    page.goto("/debug.html")
    page.get_by_label("Folder of the model").fill(model)
    press(page, "Load Model")
    if fault:
        page.get_by_text("Faults to plant").click()
        page.get_by_label(fault).check()
        page.get_by_text("Faults to plant").click()
    return page


def record_candidate(browser: Browser, address: str, target: Path) -> None:
    """Save the trace of a generation in the browser."""
    page = open_debugger(browser, address, "short", FAULT)
    press(page, "Run Full Generation")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save Trace").click()
    download.value.save_as(target)
    page.close()


def take_pictures(browser: Browser, address: str) -> None:
    for fault, button, name in (
        (None, "Test Single Inference", "sampler-inference.png"),
        (FAULT, "Test One Denoising Step", "sampler-step.png"),
        (None, "Run Full Generation", "sampler-generation.png"),
    ):
        page = open_debugger(browser, address, "model", fault)
        press(page, button)
        page.screenshot(path=IMAGES / name)
        page.close()
    page = browser.new_page(base_url=address, viewport={"width": 1280, "height": 560})
    page.goto("/index.html")
    expect(page.get_by_role("status")).to_contain_text("Ready", timeout=MINUTE)
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("status")).to_contain_text("Done.", timeout=5 * MINUTE)
    page.screenshot(path=IMAGES / "sampler-page.png")


def pack(trace: Path, target: Path) -> None:
    """Pack a trace, stored rather than deflated: it is opened where it lies."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as packed:
        for file in sorted(trace.iterdir()):
            packed.writestr(zipfile.ZipInfo(file.name), file.read_bytes())
    print(f"{target}: {target.stat().st_size:,} bytes")


def forget_machine(trace: Path) -> None:
    """Leave out of trace.json what belongs to this machine."""
    about = json.loads((trace / "trace.json").read_text("utf-8"))
    kept = {name: about[name] for name in ("format", "version", "inputs", "complete", "tensors") if name in about}
    kept["producer"] = {"name": "scripts/record-sampler.py"}
    (trace / "trace.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    DEMO.mkdir(parents=True, exist_ok=True)
    IMAGES.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(ROOT))
    import hatch_build

    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        short = shorten(EXAMPLE / "weights", work / "weights")
        hatch_build.install_packages(EXAMPLE / "web")
        hatch_build.npm("run", "build", "--", "--outDir", str(work / "dist"), "--emptyOutDir", folder=EXAMPLE / "web")
        export(EXAMPLE / "weights", work / "dist" / "model")
        export(short, work / "dist" / "short")
        run(sys.executable, "generate.py", "--weights", short, "--seed", 0, "--trace", work / "reference.trace")
        with serve(work / "dist") as address, open_browser() as browser:
            record_candidate(browser, address, work / "candidate.zip")
            take_pictures(browser, address)
        with zipfile.ZipFile(work / "candidate.zip") as packed:
            packed.extractall(work / "candidate.trace")
        for side in ("reference", "candidate"):
            forget_machine(work / f"{side}.trace")
            pack(work / f"{side}.trace", DEMO / f"{side}.zip")


if __name__ == "__main__":
    main()
