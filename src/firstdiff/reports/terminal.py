"""Format text for a terminal: colours, aligned columns, names without control characters.

Tables are laid out here and not by rich, which takes a millisecond for each of thousands of rows.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import TextIO

_STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "bold red": "1;31",
    "bold green": "1;32",
}
_NARROWEST = 24


def shown(text: str) -> str:
    """A text from a file, safe to print: control characters as escapes, so that a name cannot draw on the screen."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def paint(text: str, style: str, stream: TextIO | None = None) -> str:
    """The text in colour, where there is a terminal that wants it (NO_COLOR says it does not)."""
    stream = stream or sys.stdout
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return text
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def columns(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset(), shrinks: int = 0) -> Iterator[str]:
    """Rows of cells as aligned lines; on a terminal one column gives way, in its middle, so that lines fit.

    right: the columns that are aligned to the right
    shrinks: the column that gives way
    """
    count = max((len(row) for row in rows), default=0)
    widths = [max((_width(row[n]) for row in rows if n < len(row)), default=0) for n in range(count)]
    if sys.stdout.isatty():
        others = sum(widths) - widths[shrinks]
        room = shutil.get_terminal_size().columns - others - 2 * count
        widths[shrinks] = min(widths[shrinks], max(room, _NARROWEST))
    for row in rows:
        cells = (_padded(_shortened(cell, widths[n]), widths[n], n in right) for n, cell in enumerate(row))
        yield "  ".join(cells).rstrip()


def _width(text: str) -> int:
    """Columns a text takes: wide characters take two."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def _padded(cell: str, width: int, right: bool) -> str:
    gap = " " * (width - _width(cell))
    return gap + cell if right else cell + gap


def _shortened(cell: str, width: int) -> str:
    if _width(cell) <= width:
        return cell
    head = (width - 1) // 2
    return f"{cell[:head]}…{cell[len(cell) - (width - 1 - head) :]}"
