"""Console output of the commands: lines, warnings, progress, reports."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from firstdiff.reports.terminal import paint, shown

_interrupts: list[bool] = []
_DESCRIPTORS = re.compile(r"/dev/(?P<name>stdout|stderr|(?:fd/(?P<number>\d+)))")


def say(text: str = "", style: str | None = None) -> None:
    """One line on stdout."""
    sys.stdout.write((paint(text, style) if style else text) + "\n")


def warn(text: str) -> None:
    """One line on stderr."""
    sys.stderr.write(paint(f"warning: {shown(text)}", "yellow", sys.stderr) + "\n")


def on_interrupt(*_: object) -> None:
    """Ctrl-C is remembered: a compiler at work may swallow the exception, and the next report of progress raises it."""
    _interrupts.append(True)
    raise KeyboardInterrupt


def stop_if_interrupted(_done: int, _total: int) -> None:
    """A report of progress where there is nobody to show it to."""
    if _interrupts:
        _interrupts.clear()
        raise KeyboardInterrupt


@contextmanager
def progress_bar(title: str, *, unit_bytes: bool = False) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr with speed and remaining time, gone when done; nothing at all where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield stop_if_interrupted
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    amount = (DownloadColumn(), TransferSpeedColumn()) if unit_bytes else (MofNCompleteColumn(),)
    shape = (TextColumn("{task.description}"), BarColumn(), *amount, TimeRemainingColumn())
    with Progress(*shape, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def show(done: int, total: int) -> None:
            stop_if_interrupted(done, total)
            bar.update(task, completed=done, total=total)

        yield show


class StageProgress(Protocol):
    """The progress of a comparison: `done` of `total` bytes of a stage, both 0 where it cannot be counted.

    first: the first row that differs so far
    """

    @property
    def stage(self) -> str: ...
    @property
    def done(self) -> int: ...
    @property
    def total(self) -> int: ...
    @property
    def first(self) -> str | None: ...


@contextmanager
def comparison_progress() -> Iterator[Callable[[StageProgress], None]]:
    """Show stage, share done, time left and the first divergence so far on stderr; nothing where it is no terminal."""
    if not sys.stderr.isatty():
        yield lambda progress: stop_if_interrupted(progress.done, progress.total)
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    shape = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[first]}"),
    )
    with Progress(*shape, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("opening", total=None, first="")

        def show(progress: StageProgress) -> None:
            stop_if_interrupted(progress.done, progress.total)
            nonlocal task
            if str(progress.stage) != bar.tasks[0].description:  # with its own clock, for an honest estimate
                bar.remove_task(task)
                task = bar.add_task(str(progress.stage), total=None, first="")
            first = f"first divergence so far: {escape(shown(progress.first))}" if progress.first else ""
            bar.update(task, completed=progress.done, total=progress.total or None, first=first)

        yield show


def write_report(path: Path, pieces: Iterable[str]) -> None:
    """Write a report to a file, whole or not at all; into a pipe or a device as it comes."""
    from firstdiff.errors import WriteError

    try:
        descriptor = _stream(path)
        if descriptor is None:
            _replace_file(path.resolve(), pieces)
            return
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(pieces)
    except OSError as error:
        raise WriteError(f"cannot write {path} ({error.strerror or error})") from error


def _stream(path: Path) -> int | None:
    """Open what is not a regular file; None for one that is, or is not there yet."""
    own = _DESCRIPTORS.fullmatch(str(path))
    if own is not None:  # it may be a regular file that others write to as well: opening it again would lose the place
        sys.stdout.flush()
        return os.dup({"stdout": 1, "stderr": 2}.get(own["name"]) or int(own["number"]))
    return os.open(path, os.O_WRONLY) if path.exists() and not path.is_file() else None


def _replace_file(path: Path, pieces: Iterable[str]) -> None:
    """Write beside the file, then rename: an interrupted run leaves no half report behind."""
    import tempfile

    descriptor, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(pieces)
        Path(part).chmod(_default_mode())
        Path(part).replace(path)
    finally:
        Path(part).unlink(missing_ok=True)


def _default_mode() -> int:
    """Return the mode of a file opened in the plain way; temporary ones are private."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def command_output(side: str) -> Callable[[str], None]:
    """Return what shows the lines of a command on stderr as they come, so that stdout holds results alone."""

    def show(line: str) -> None:
        sys.stderr.write(paint(f"{side} | {shown(line)}", "dim", sys.stderr) + "\n")
        sys.stderr.flush()

    return show
