"""Read the entry points of installed packages from their files.

`importlib.metadata` gives the same, but takes longer to import and search than many commands take to run.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple


class EntryPoint(NamedTuple):
    """`value` is `module:object`; `package` is the distribution that brought it."""

    group: str
    name: str
    value: str
    package: str

    def load(self) -> Any:
        """Import it."""
        module, _, names = self.value.partition("[")[0].strip().partition(":")
        return reduce(getattr, filter(None, names.strip().split(".")), import_module(module.strip()))


def entry_points(prefix: str) -> list[EntryPoint]:
    """Those whose group begins with a prefix; of packages of one name the first on the path counts."""
    found: dict[str, list[EntryPoint]] = {}
    for folder in dict.fromkeys(sys.path):
        for package, text in _described(folder or os.curdir):
            known = re.sub(r"[-_.]+", "-", package).lower()
            if known not in found:
                found[known] = [*_parsed(text, prefix, package)]
    return [entry for entries in found.values() for entry in entries]


def _described(folder: str) -> Iterator[tuple[str, str]]:
    """The packages that a folder or an archive on the path holds, each with its `entry_points.txt`."""
    if Path(folder).is_file():
        from importlib.metadata import distributions

        for package in distributions(path=[folder]):
            yield package.metadata["Name"], package.read_text("entry_points.txt") or ""
        return
    with suppress(OSError), os.scandir(folder) as inside:
        for entry in inside:
            if entry.name.endswith((".dist-info", ".egg-info")):
                yield entry.name.rpartition(".")[0].partition("-")[0], _text(f"{entry.path}/entry_points.txt")


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def _parsed(text: str, prefix: str, package: str) -> Iterator[EntryPoint]:
    if f"[{prefix}" not in text:
        return
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[]").strip()
        elif group.startswith(prefix) and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield EntryPoint(group, name.strip(), value.strip(), package)
