from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer.main

from firstdiff import __version__
from firstdiff.cli.main import COMMANDS, COMMANDS_BY_USE, app_of

Run = Callable[..., tuple[int, str, str]]


def test_the_demo_names_its_planted_bug(firstdiff: Run, tmp_path: Path) -> None:
    code, out, _ = firstdiff("demo", "-o", tmp_path / "demo")
    assert code == 0
    assert (tmp_path / "demo" / "candidate.trace" / "trace.json").exists()
    assert "First divergence: layers.2.ln_1, LayerNorm" in out


def test_plugins_lists_the_readers(firstdiff: Run) -> None:
    code, out, _ = firstdiff("plugins")
    assert code == 0
    assert ["readers", "npy", "firstdiff", "loads"] in [line.split() for line in out.splitlines()]


def test_the_version(firstdiff: Run) -> None:
    assert firstdiff("--version")[1].startswith("firstdiff 0.")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["compare", "only-one"], "Missing argument 'CAND'"),
        (["inspect", "x", "--no-such-option"], "No such option: --no-such-option"),
        (["conpare", "a", "b"], "No such command 'conpare'"),
    ],
)
def test_bad_usage_is_said_and_exit_code_2(firstdiff: Run, words: list[str], says: str) -> None:
    code, out, err = firstdiff(*words)
    assert (code, out) == (2, "")
    assert err.startswith("firstdiff: ")
    assert says in err


def test_no_words_show_the_help(firstdiff: Run) -> None:
    _, out, err = firstdiff()
    assert "compare" in out + err


def test_the_help_groups_every_command_by_its_use(firstdiff: Run) -> None:
    _, out, _ = firstdiff("--help")
    for use, names in COMMANDS_BY_USE.items():
        assert f" {use} " in out
        assert all(f" {name} " in out for name in names)


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "capture"])
def test_help_shows_what_stands_in_brackets(firstdiff: Run, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    _, out, _ = firstdiff(command, "--help")
    for parameter in typer.main.get_command(app_of([command, "plugins"])).commands[command].params:  # type: ignore[attr-defined]
        assert (getattr(parameter, "help", None) or "").replace("`", "") in out


def test_python_runs_the_package_as_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "firstdiff", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"firstdiff {__version__}\n"
