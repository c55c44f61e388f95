"""What the commands print: lines, warnings, progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from firstdiff.reports.terminal import paint, shown

_interrupts: list[bool] = []


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
