"""The command `firstdiff`: its subcommands, its errors, its exit codes."""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
import warnings
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any, NoReturn

import typer

from firstdiff import __version__
from firstdiff.cli.console import on_interrupt, warn
from firstdiff.errors import FirstdiffError
from firstdiff.reports.terminal import shown

BAD_INPUT = 2
_OF_THE_MACHINE = frozenset({errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EROFS})  # a user can mend these
INTERRUPTED = 130
_BadUsage: Any = typer.BadParameter.__mro__[1]  # the UsageError of typer's click, wherever a version of it keeps that

# by what they are for; each is a function of its name, or an app of its own, in the module of its name
COMMANDS_BY_USE = {
    "Begin": ("demo", "init", "serve"),
    "Record": ("capture", "onnx", "inspect"),
    "Compare": ("compare", "diagnose", "explain", "pair", "causes", "report", "calibrate"),
    "Port": ("golden", "validate", "plan", "run", "bisect"),
    "Check": ("check", "weights", "vocab", "audio"),
    "Extend": ("mcp", "plugins"),
}
COMMANDS = {name: use for use, names in COMMANDS_BY_USE.items() for name in names}


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"firstdiff {__version__}")
        raise typer.Exit


def app_of(names: Iterable[str]) -> typer.Typer:
    """The command line with these commands: to build all of them takes longer than most of them run."""
    app = typer.Typer(
        rich_markup_mode="markdown",
        name="firstdiff",
        help="Finds where two runs of the same model part ways, and why.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
    )
    app.callback()(_options)
    for name in names:
        module = import_module(f"firstdiff.cli.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name, rich_help_panel=COMMANDS[name])
        else:
            app.command(name, rich_help_panel=COMMANDS[name])(getattr(module, name))
    return app


def _asked_for(words: list[str]) -> tuple[str, ...]:
    """The command that the words begin with; all where they begin with something else."""
    return (words[0],) if words and words[0] in COMMANDS else tuple(COMMANDS)


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Finds where two runs of the same model part ways, and why."""


def main() -> None:
    """Entry point: a user's mistake is one sentence on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name the terminal cannot show must not end the run
    warnings.showwarning = _show_warning
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # we have threads of our own, and BLAS's stall beside them
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGINT, on_interrupt)
    gc.set_threshold(100_000)  # a trace is many small objects that all stay: looking for garbage in between finds none
    try:
        code = app_of(_asked_for(sys.argv[1:]))(standalone_mode=False)
        if code == INTERRUPTED:  # what newer versions of typer make of Ctrl-C
            raise KeyboardInterrupt
        sys.exit(code)
    except FirstdiffError as error:
        _stop(shown(str(error)), BAD_INPUT)
    except _BadUsage as error:
        _stop(f"{error.format_message()} (`firstdiff --help` explains)", BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        _stop("stopped", INTERRUPTED)
    except BrokenPipeError:
        # the reader of our output left; python would complain once more while flushing at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.errno not in _OF_THE_MACHINE or error.filename is None:
            raise
        _stop(f"{shown(str(error.filename))}: {error.strerror}", BAD_INPUT)
    finally:
        gc.freeze()  # everything goes with the process now: python need not look for garbage first


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    warn(str(message))


def _stop(sentence: str, code: int) -> NoReturn:
    sys.stderr.write(f"firstdiff: {sentence}\n")
    sys.exit(code)
