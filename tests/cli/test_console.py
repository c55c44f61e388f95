from __future__ import annotations

import io
import re
import sys
from dataclasses import dataclass

import pytest

from firstdiff.cli.console import comparison_progress


@dataclass
class Step:
    stage: str
    done: int = 0
    total: int = 0
    first: str | None = None


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, steps: list[Step]) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with comparison_progress() as show:
        for step in steps:
            show(step)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", stream.getvalue())


STEPS = [Step("pairing"), Step("comparing", 50, 100, "layers.2.[red]ln_1"), Step("looking for causes")]


def test_progress_names_the_stage_and_the_first_divergence_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = shown(monkeypatch, Terminal(), STEPS[:2])
    assert "comparing" in seen
    assert " 50%" in seen
    assert "first divergence so far: layers.2.[red]ln_1" in seen


def test_a_stage_that_cannot_be_counted_shows_no_share_and_no_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    last = shown(monkeypatch, Terminal(), STEPS).partition("looking for causes")[2]
    assert "first divergence so far" not in last
    assert "%" not in last
    assert ":" not in last


def test_nothing_is_drawn_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, io.StringIO(), STEPS) == ""
