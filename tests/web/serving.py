"""A real `firstdiff serve` in a process of its own, that tests can talk to, kill and start again."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

FIRSTDIFF = Path(sys.executable).parent / ("firstdiff.exe" if os.name == "nt" else "firstdiff")
OVER = {"done", "failed", "cancelled"}
PATIENCE = 60.0


class Server:
    """`home` and port stay the same over restarts; `options` are further ones of the command."""

    def __init__(self, home: Path, program: Path = FIRSTDIFF, options: Sequence[str] = ()) -> None:
        self.home = home
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._program = program
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [str(self._program), "serve", "--no-open", "--port", str(self.port), "--home", str(self.home)]
        command += self._options
        environment = os.environ | {"FIRSTDIFF_CACHE": str(self.home / "cache")}
        with (self.home / "serve.log").open("ab") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        wait_until(self._answers, "the server answers")

    def kill(self) -> None:
        """End it as a crash would: nothing can be tidied up."""
        self._end(signal.SIGKILL if os.name != "nt" else signal.SIGTERM)

    def stop(self) -> None:
        self._end(signal.SIGINT if os.name != "nt" else signal.SIGTERM)

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The parsed answer of /api`path`; an error raises with the server's sentence."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if data else {}
        request = urllib.request.Request(f"{self.url}/api{path}", data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from None
        return json.loads(text) if text else None

    def compare(self, reference: Path, candidate: Path | None = None, **more: Any) -> Any:
        """A comparison of paths, run to its end; returns its entry."""
        sides = {"reference": {"path": str(reference)}}
        if candidate is not None:
            sides["candidate"] = {"path": str(candidate)}
        entry = self.ask("POST", "/comparisons", {"kind": "pair" if candidate else "look", **sides, **more})
        return self.settled(entry["id"])

    def settled(self, comparison: str) -> Any:
        """The entry of a comparison once it is done, failed or cancelled."""
        found: list[Any] = []

        def over() -> bool:
            found[:] = [self.ask("GET", f"/comparisons/{comparison}")["entry"]]
            return found[0]["state"] in OVER

        wait_until(over, f"comparison {comparison} ends")
        return found[0]

    def forget_all(self) -> None:
        for entry in self.ask("GET", "/comparisons")["comparisons"]:
            self.ask("DELETE", f"/comparisons/{entry['id']}")

    def freeze(self) -> int:
        """Stop the process of a comparison that was just started, before it gets anywhere; SIGCONT lets it go on."""
        assert self._process is not None
        parent = str(self._process.pid)
        found: list[int] = []

        def there() -> bool:
            for status in Path("/proc").glob("[0-9]*/stat"):
                with suppress(OSError):
                    if status.read_text().rpartition(")")[2].split()[1] == parent:
                        found.append(int(status.parent.name))
            return bool(found)

        wait_until(there, "the server compares", every=0.01)
        os.kill(found[0], signal.SIGSTOP)
        return found[0]

    def _answers(self) -> bool:
        process = self._process
        assert process is not None
        assert process.poll() is None, (self.home / "serve.log").read_text(encoding="utf-8")
        try:
            self.ask("GET", "/about")
        except OSError:
            return False
        return True

    def _end(self, sign: signal.Signals) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(sign)
        try:
            self._process.wait(PATIENCE)
        finally:
            self._process = None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(holds: Callable[[], bool], what: str, every: float = 0.05) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(every)
