from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from firstdiff.cli.main import main


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def firstdiff(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Runs the command line in this process, as `firstdiff(*words)`."""

    def run(*words: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["firstdiff", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return run
