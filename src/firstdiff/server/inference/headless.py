"""Record a model in a browser from the command line: a server, a headless Chromium, and the trace they make."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import uvicorn

from firstdiff.capturing.onnx_browser import BrowserCaptured, Provider
from firstdiff.errors import FirstdiffError, UsageError
from firstdiff.server.app import STATIC, create_app
from firstdiff.server.context import Context, ServerSettings
from firstdiff.server.inference.inputs import inputs_from_file
from firstdiff.server.inference.models import BrowserRun
from firstdiff.server.jobs import Jobs
from firstdiff.store import Store

NAMES = (
    "chromium chromium-browser google-chrome google-chrome-stable chrome microsoft-edge msedge brave-browser".split()
)
_PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)
_FLAGS = (
    "--headless=new --no-first-run --no-default-browser-check --disable-background-networking --disable-sync "
    "--disable-component-update --disable-quic --disable-extensions"
).split()
_LOOK_EVERY = 0.05


class BrowserError(FirstdiffError):
    """The browser could not be started, or ended before the run was over."""


def find_browser(stated: Path | None = None) -> Path:
    """A Chromium of this machine: the stated one, FIRSTDIFF_BROWSER, or the first that is found."""
    chosen = str(stated) if stated else os.environ.get("FIRSTDIFF_BROWSER")
    if chosen:
        found = shutil.which(chosen)
        if found is None:
            raise BrowserError(f"the browser {chosen} cannot be started; check the path")
        return Path(found)
    for name in (*NAMES, *_PLACES):
        if found := shutil.which(name):
            return Path(found)
    raise BrowserError(
        "no Chromium, Chrome or Edge was found on this machine; install one, name it with --browser, "
        "or open the address that --no-launch prints in any browser"
    )


def capture_browser(
    model: Path,
    inputs: Path,
    output: Path,
    *,
    provider: Provider = "wasm",
    optimize: bool = False,
    browser: Path | None = None,
    launch: bool = True,
    overwrite: bool = False,
    timeout: float = 600.0,
    say: Callable[[str], None] = print,
    on_progress: Callable[[int, int], None] | None = None,
) -> BrowserCaptured:
    """Run a model once in onnxruntime-web and record every value it computes.

    browser: the program to start; the first Chromium that is found if left out
    launch: start a headless browser; otherwise the address to open is said
    timeout: seconds to wait for the browser
    """
    if not (STATIC / "index.html").is_file():
        raise UsageError("the page is not built in this checkout; `make web` builds it")
    program = find_browser(browser) if launch else None
    with (
        tempfile.TemporaryDirectory(prefix="firstdiff-", ignore_cleanup_errors=True) as home,
        _server(Path(home)) as context,
    ):
        opened = context.inference.open(model)
        opened.set_inputs(inputs_from_file(opened.model, inputs))
        run = opened.start_run(provider, optimize, program.name if program else "", output, overwrite=overwrite)
        address = f"http://127.0.0.1:{context.settings.port}/inference?model={opened.id}&run={run.id}"
        with _started(program, address, provider, Path(home)) as process:
            if process is None:
                say(f"Open {address} in a browser; this waits until the run is over")
            _wait(run, process, timeout, on_progress)
    if run.captured is None:
        raise BrowserError(run.error or "the run was not finished")
    return run.captured


def _wait(
    run: BrowserRun,
    process: subprocess.Popen[bytes] | None,
    timeout: float,
    on_progress: Callable[[int, int], None] | None,
) -> None:
    deadline = time.monotonic() + timeout
    try:
        while run.state == "running":
            if process is not None and process.poll() is not None:
                run.fail(f"the browser ended with code {process.returncode} before the run was over", own=True)
            elif time.monotonic() > deadline:
                run.fail(f"the browser was not done after {timeout:g} s; give it more with --timeout", own=True)
            if on_progress is not None:
                on_progress(round(run.done * 100), 100)
            time.sleep(_LOOK_EVERY)
    except BaseException:
        run.fail("stopped", own=True)
        raise


@contextmanager
def _started(
    program: Path | None, address: str, provider: Provider, home: Path
) -> Iterator[subprocess.Popen[bytes] | None]:
    if program is None:
        yield None
        return
    flags = [*_FLAGS, f"--user-data-dir={home / 'profile'}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        flags.append("--no-sandbox")  # Chromium refuses to run as root with it
    # on Linux Chromium has WebGPU only where it is asked for
    flags += ["--enable-unsafe-webgpu"] if provider == "webgpu" else ["--disable-gpu"]
    try:
        process = subprocess.Popen(
            [str(program), *flags, address],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=sys.platform != "win32",  # Ctrl-C is for us alone
        )
    except OSError as error:
        raise BrowserError(f"the browser {program} cannot be started ({error.strerror or error})") from error
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        if process.poll() is None:
            process.kill()


@contextmanager
def _server(home: Path) -> Iterator[Context]:
    """A server of this machine's own, for as long as the run takes."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(16)
        store = Store(home)
        context = Context(store, Jobs(store), ServerSettings(port=listening.getsockname()[1]))
        # once the trace is there nobody waits for what the page still asks, so that ending it is no error
        config = uvicorn.Config(
            create_app(context), log_level="critical", access_log=False, ws="none", timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield context
        finally:
            context.jobs.closing = True
            server.should_exit = True
            thread.join(5)
            store.close()
