from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import Done

Run = Callable[..., Done]
Start = Callable[..., "Served"]


class Served:
    """A `firstdiff` that serves, in a process of its own."""

    def __init__(self, *words: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "firstdiff", *map(str, words), "--no-open"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said: list[str] = []
        assert self._process.stdout is not None
        while "The page is at" not in "".join(self.said):
            line = self._process.stdout.readline()
            assert line, "".join(self.said)
            self.said.append(line)
        found = re.search(r"http://[^/]+(:\d+)(/\S*)", self.said[-1])
        assert found
        self.path = found[2]
        self.origin = f"http://127.0.0.1{found[1]}"

    def code(self, path: str, **headers: str) -> int:
        try:
            with urllib.request.urlopen(urllib.request.Request(self.origin + path, headers=headers)) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.origin}/api{path}") as answer:
            return json.load(answer)

    def stop(self, sign: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        self._process.send_signal(sign)
        rest, _ = self._process.communicate(timeout=60)
        return self._process.returncode, rest

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Served] = []

    def begin(*words: object) -> Served:
        started.append(Served(*words, "--home", tmp_path / "home"))
        return started[-1]

    yield begin
    for one in started:
        one.end()


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", np.ones(3))
    return tmp_path / "x.npy"


def test_the_page_opens_on_what_was_named_and_runs_it_again(start: Start, trace: Path) -> None:
    first = start("serve", trace, trace, "--third", trace, "--port", 0)
    (entry,) = first.get("/comparisons")["comparisons"]
    assert first.path == f"/c/{entry['id']}"
    assert [entry[side]["path"] for side in ("reference", "candidate", "third")] == [str(trace)] * 3
    assert first.stop() == (0, "stopped\n")
    again = start("serve", trace, trace, "--third", trace, "--port", 0)
    assert again.path == first.path
    assert len(again.get("/comparisons")["comparisons"]) == 1
    other = start("serve", trace, "--port", 0)
    assert [entry["kind"] for entry in other.get("/comparisons")["comparisons"]] == ["look", "pair"]


def test_a_port_that_is_taken_is_passed_over_and_that_is_said(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        served = start("serve", "--port", port)
        assert served.said[0].startswith(f"Port {port} is taken, so this one is at ")
        assert served.get("/about")["version"]


def test_other_machines_need_the_token_that_is_printed(start: Start) -> None:
    served = start("serve", "--host", "0.0.0.0", "--port", 0)
    token = served.path.partition("?token=")[2]
    assert len(token) >= 16
    assert served.code("/") == 401
    assert served.code("/api/comparisons") == 401
    assert served.code("/api/comparisons", Authorization=f"Bearer {token}") == 200


def test_pages_of_another_origin_are_let_in_by_name(start: Start) -> None:
    served = start("serve", "--allow-origin", "http://localhost:3000/", "--port", 0)
    assert served.code("/api/comparisons", Origin="http://localhost:3000") == 200
    assert served.code("/api/comparisons", Origin="http://localhost:3001") == 403


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM to catch")
def test_it_ends_cleanly_when_told_to(start: Start) -> None:
    assert start("serve", "--port", 0).stop(signal.SIGTERM)[0] in (0, -signal.SIGTERM)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["/no/such/run"], "the reference /no/such/run does not exist; check the path"),
        ([".", "/no/such/run"], "the candidate /no/such/run does not exist"),
        ([".", ".", "--third", "/no/such/run"], "the third /no/such/run does not exist"),
        ([".", "--third", "."], "--third goes with two others"),
        (["--token", "short"], "--token has 5 letters; 8 are the least"),
        (["--allow-origin", "*"], "it takes an origin such as http://localhost:3000"),
        (["--allow-origin", "http://a.b/c"], "it takes an origin such as"),
        (["--port", "70000"], "70000"),
        (["--host", "no.such.host.invalid"], "cannot listen on no.such.host.invalid"),
        (["--home", "/proc/firstdiff"], "choose another --home"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(firstdiff: Run, tmp_path: Path, words: list[str], says: str) -> None:
    home = [] if "--home" in words else ["--home", tmp_path / "home"]
    done = firstdiff("serve", *words, *home, "--no-open")
    assert done.code == 2
    assert says in done.err
    assert done.err.count("\n") == 1
