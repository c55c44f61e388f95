"""Run the server: port, token, browser and a clean end."""

from __future__ import annotations

import errno
import os
import secrets
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import final

import uvicorn

from firstdiff.errors import UsageError
from firstdiff.server.app import create_app
from firstdiff.server.context import Context, ServerSettings
from firstdiff.server.guard import is_loopback
from firstdiff.server.jobs import Jobs
from firstdiff.store import Store

PORT = 8585
_TRIES = 100
_SHORTEST_TOKEN = 8
_GRACE = 2

Begin = Callable[[Context], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Settings of `firstdiff serve`.

    home: where comparisons are kept
    port: where to listen; the next free one if it is taken, any if it is 0
    token: what requests must carry; made up where others can reach the server and none is stated
    origins: pages of other origins that may talk to the server
    open_browser: show the page
    project: the firstdiff.toml that the page shows
    """

    home: Path
    host: str = "127.0.0.1"
    port: int = PORT
    token: str | None = None
    origins: tuple[str, ...] = ()
    open_browser: bool = True
    project: Path | None = None


def serve(serving: Serving, begin: Begin, say: Callable[[str], None]) -> None:
    """Serve until it is stopped.

    begin: called once the store is open; returns the comparison to show, if any
    say: called with the lines to print
    """
    settings = _settings(serving)
    listening = _listen(serving.host, serving.port)
    try:
        settings = replace(settings, port=listening.getsockname()[1])
        store = Store(serving.home)
        try:
            _run(store, settings, listening, serving, begin, say)
        finally:
            store.close()
    finally:
        listening.close()


def address(settings: ServerSettings, comparison: str | None = None) -> str:
    """Return the URL of the page, with the token."""
    name = settings.host
    if name in ("0.0.0.0", "::", ""):
        name = socket.gethostname()
    host = f"[{name}]" if ":" in name else name
    page = f"c/{comparison}" if comparison else ""
    token = f"?token={settings.token}" if settings.token else ""
    return f"http://{host}:{settings.port}/{page}{token}"


def _run(
    store: Store,
    settings: ServerSettings,
    listening: socket.socket,
    serving: Serving,
    begin: Begin,
    say: Callable[[str], None],
) -> None:
    jobs = Jobs(store)
    context = Context(store, jobs, settings)
    try:
        url = address(settings, begin(context))
    except BaseException:
        jobs.close()
        raise
    if serving.port not in (0, settings.port):
        say(f"Port {serving.port} is taken, so this one is at {settings.port}.")
    say(f"The page is at {url} (Ctrl-C ends it; comparisons are kept in {serving.home})")
    config = uvicorn.Config(
        create_app(context),
        log_level="warning",
        access_log=False,
        ws="none",
        lifespan="on",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE,
    )
    server = _Server(config, jobs)
    if serving.open_browser and _has_browser():
        threading.Thread(target=_open, args=(server, url), daemon=True).start()
    server.run(sockets=[listening])


@final
class _Server(uvicorn.Server):
    """Tells those who follow a comparison that it is over: open streams would hold up the end."""

    def __init__(self, config: uvicorn.Config, jobs: Jobs) -> None:
        super().__init__(config)
        self._jobs = jobs

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._jobs.closing = True
        super().handle_exit(sig, frame)


def _settings(serving: Serving) -> ServerSettings:
    token = serving.token
    if token is not None and len(token) < _SHORTEST_TOKEN:
        raise UsageError(f"--token has {len(token)} letters; {_SHORTEST_TOKEN} are the least that protect anything")
    if token is None and not is_loopback(serving.host):
        token = secrets.token_urlsafe(16)
    for origin in serving.origins:
        scheme, _, rest = origin.partition("://")
        if scheme not in ("http", "https") or not rest or "/" in rest or "*" in rest:
            raise UsageError(f"--allow-origin is {origin!r}; it takes an origin such as http://localhost:3000")
    return ServerSettings(serving.host, serving.port, token, serving.origins, serving.project)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for tried in range(port, min(port + _TRIES, 65536)) if port else (0,):
        listening = socket.socket(family, socket.SOCK_STREAM)
        if sys.platform != "win32":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host.strip("[]"), tried))
            listening.listen(128)
        except OSError as error:
            listening.close()
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise UsageError(f"cannot listen on {host}:{tried} ({error.strerror or error})") from error
            continue
        return listening
    raise UsageError(f"no port from {port} on is free at {host}; choose another --port")


def _open(server: uvicorn.Server, url: str) -> None:
    while not server.started and not server.should_exit:
        time.sleep(0.02)
    webbrowser.open(url)


def _has_browser() -> bool:
    """True if a graphical browser can be opened; a text browser would take over the terminal."""
    if sys.platform in ("win32", "darwin") or os.environ.get("BROWSER"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
