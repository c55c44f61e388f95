"""Plugin hooks: tables of entry points, for firstdiff's own parts and those of other packages.

A package adds to a table with `[project.entry-points."firstdiff.readers"]`; `docs/plugins.md` describes each.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any, Literal, NamedTuple, get_args

from firstdiff.errors import FirstdiffError
from firstdiff.installed import EntryPoint, entry_points

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
