"""The clients that the conformance set is put to: one row each."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.clients.cpp import cpp_program
from tests.tools import needs

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Client:
    """A client's program.

    build: makes the program, skipping the test where a compiler is missing, and returns the command that runs it
    commands: those it has; a client that only records has write and crash
    """

    name: str
    build: Callable[[], list[str]]
    commands: frozenset[str] = frozenset({"write", "crash", "read", "check", "draws"})

    def __str__(self) -> str:
        return self.name

    def run(self, *arguments: str | Path, dies: bool = False) -> str:
        """Run one command and return what it prints; `dies` says that it must not end well."""
        command = [*_built(self), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, check=False, cwd=ROOT)
        text = done.stderr.decode("utf-8", "replace")
        assert (done.returncode != 0) == dies, f"{self.name} {arguments[0]} ended with {done.returncode}: {text}"
        return done.stdout.decode("utf-8")


@cache
def _built(client: Client) -> list[str]:
    return client.build()


def _python() -> list[str]:
    return [sys.executable, "-m", "tests.conformance.program"]


def compiled(compiler: str, *arguments: str) -> None:
    """Run a compiler, with its words in the test's failure."""
    done = subprocess.run([needs(compiler), *arguments], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def _javascript() -> list[str]:
    from tests.clients.javascript import CLIENT, built_client, node

    built_client()
    return [node(), str(CLIENT / "tests" / "conformance.mjs")]


def _rust() -> list[str]:
    crate = ROOT / "clients" / "rust"
    places = ("--manifest-path", str(crate / "Cargo.toml"), "--target-dir", str(crate / "target"))
    compiled("cargo", "build", "--offline", "--quiet", "--example", "conformance", *places)
    return [str(crate / "target" / "debug" / "examples" / "conformance")]


def _cpp() -> list[str]:
    # the widest instructions there are: what a compiler fuses must not change a draw
    return [str(cpp_program(ROOT / "clients" / "cpp" / "tests" / "conformance.cpp", "-O2", "-march=native"))]


def _c() -> list[str]:
    from tests.clients.c_recorder import recorder_program

    program = recorder_program(Path(tempfile.mkdtemp(prefix="firstdiff-recorder-")))
    return [sys.executable, "-m", "tests.clients.c_recorder", str(program)]


CLIENTS = (
    Client("python", _python, frozenset({"write", "crash", "read", "draws"})),
    Client("javascript", _javascript),
    Client("rust", _rust),
    Client("cpp", _cpp),
    Client("c", _c, frozenset({"write", "crash"})),
)
