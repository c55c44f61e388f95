"""Select the tensors to record: globs over names, roles, and FIRSTDIFF_ONLY from the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from fnmatch import translate
from typing import final

from firstdiff.errors import UsageError, did_you_mean
from firstdiff.trace import ROLES


@final
class Filters:
    """Tells by name and role whether a tensor is recorded. `*` in a glob matches dots as well.

    include: globs, one of which must fit (none given: all names do); FIRSTDIFF_ONLY, separated by commas, holds too
    exclude: globs that must not fit
    roles: the roles to record; None for all
    """

    def __init__(
        self, include: Iterable[str] = (), exclude: Iterable[str] = (), roles: Iterable[str] | None = None
    ) -> None:
        only = [glob.strip() for glob in os.environ.get("FIRSTDIFF_ONLY", "").split(",")]
        self._needed = [pattern for pattern in (_pattern(include), _pattern(filter(None, only))) if pattern]
        self._excluded = _pattern(exclude)
        self._roles = None if roles is None else _known_roles(roles)
        self._by_name: dict[str, bool] = {}

    def wants(self, name: str, role: str) -> bool:
        if self._roles is not None and role not in self._roles:
            return False
        known = self._by_name.get(name)
        if known is None:
            known = all(pattern.match(name) for pattern in self._needed)
            known = known and not (self._excluded and self._excluded.match(name))
            self._by_name[name] = known
        return known


def _pattern(globs: Iterable[str]) -> re.Pattern[str] | None:
    if isinstance(globs, str):
        globs = (globs,)
    parts = [translate(glob) for glob in globs]
    return re.compile("|".join(parts)) if parts else None


def _known_roles(roles: Iterable[str]) -> frozenset[str]:
    wanted = frozenset((roles,) if isinstance(roles, str) else roles)
    for role in sorted(wanted - set(ROLES)):
        raise UsageError(f"{role!r} is no role{did_you_mean(role, ROLES)}; the roles are {', '.join(ROLES)}")
    return wanted
