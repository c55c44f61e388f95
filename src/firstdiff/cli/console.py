"""What the commands print: lines, warnings, progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from firstdiff.reports.terminal import paint, shown


def say(text: str = "", style: str | None = None) -> None:
    """One line on stdout."""
    sys.stdout.write((paint(text, style) if style else text) + "\n")


def warn(text: str) -> None:
    """One line on stderr."""
    sys.stderr.write(paint(f"warning: {shown(text)}", "yellow", sys.stderr) + "\n")


@contextmanager
def progress_bar(title: str, *, unit_bytes: bool = False) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr with speed and remaining time, gone when done; nothing at all where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
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
        yield lambda done, total: bar.update(task, completed=done, total=total)
