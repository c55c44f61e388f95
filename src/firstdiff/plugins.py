"""Plugin hooks: tables of entry points, for firstdiff's own parts and those of other packages.

A package adds to a table with `[project.entry-points."firstdiff.readers"]`; `docs/plugins.md` describes each. Entry
points are read from the files of installed packages, for `importlib.metadata` takes longer to import than many
commands take to run.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, reduce
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from firstdiff.errors import FirstdiffError


class EntryPoint(NamedTuple):
    """An entry point: `value` is `module:object`, `package` its distribution."""

    group: str
    name: str
    value: str
    package: str

    def load(self) -> Any:
        """Import the object."""
        module, _, names = self.value.partition("[")[0].strip().partition(":")
        return reduce(getattr, filter(None, names.strip().split(".")), import_module(module.strip()))


def entry_points(prefix: str) -> list[EntryPoint]:
    """Return the entry points whose group has a prefix; of packages of one name the first on the path counts."""
    found: dict[str, list[EntryPoint]] = {}
    for folder in dict.fromkeys(sys.path):
        for package, text in _entry_point_files(folder or os.curdir):
            known = re.sub(r"[-_.]+", "-", package).lower()
            if known not in found:
                found[known] = [*_parse_entry_points(text, prefix, package)]
    return [entry for entries in found.values() for entry in entries]


def _entry_point_files(folder: str) -> Iterator[tuple[str, str]]:
    """Yield the packages in a folder or archive on the path, each with its `entry_points.txt`."""
    if Path(folder).is_file():
        from importlib.metadata import distributions

        for package in distributions(path=[folder]):
            yield package.metadata["Name"], package.read_text("entry_points.txt") or ""
        return
    with suppress(OSError), os.scandir(folder) as inside:
        for entry in inside:
            if entry.name.endswith((".dist-info", ".egg-info")):
                yield entry.name.rpartition(".")[0].partition("-")[0], _read_text(f"{entry.path}/entry_points.txt")


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def _parse_entry_points(text: str, prefix: str, package: str) -> Iterator[EntryPoint]:
    if f"[{prefix}" not in text:
        return
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[]").strip()
        elif group.startswith(prefix) and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield EntryPoint(group, name.strip(), value.strip(), package)


Hook = Literal["readers", "pairing", "alignment", "hypotheses", "checks", "reports", "engines"]
HOOKS: tuple[Hook, ...] = get_args(Hook)
_OWN = "firstdiff"


class PluginError(FirstdiffError):
    """A plugin could not be loaded."""


class Plugin(NamedTuple):
    """One entry of a table; `package` is the distribution it came with."""

    hook: Hook
    name: str
    package: str
    entry: EntryPoint

    def load(self) -> Any:
        """Import it and return the object; whatever it raises comes back as one sentence."""
        try:
            return self.entry.load()
        except Exception as error:
            raise PluginError(
                f"plugin {self.name!r} of {self.package} ({self.entry.value}) does not load: {error}"
            ) from error


@cache
def _entries() -> list[EntryPoint]:
    """Those of every installed package, looked through once."""
    return entry_points(f"{_OWN}.")


@cache
def listed(hook: Hook) -> tuple[Plugin, ...]:
    """The entries of one table, firstdiff's own first, then by name."""
    found = [Plugin(hook, entry.name, entry.package, entry) for entry in _entries() if entry.group == f"{_OWN}.{hook}"]
    return tuple(sorted(found, key=lambda plugin: (plugin.package != _OWN, plugin.name)))


@cache
def loaded(hook: Hook) -> tuple[Any, ...]:
    """The objects of one table. A stranger's that does not load is warned of and left out; the rest still works."""
    found = []
    for plugin in listed(hook):
        try:
            found.append(plugin.load())
        except PluginError as error:
            if plugin.package == _OWN:
                raise
            warnings.warn(f"{error}; it is left out", RuntimeWarning, stacklevel=2)
    return tuple(found)
