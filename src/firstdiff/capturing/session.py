"""A recording in progress: which tensors it keeps, and the trace it writes."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import translate
from threading import RLock
from typing import Any, final

import numpy as np

from firstdiff.capturing.queue_writer import Sink
from firstdiff.errors import UsageError, did_you_mean
from firstdiff.trace import ROLES, Record, Role


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


_SHOWN_EXAMPLES = 5
_COUNTED_STEPS = 64  # how long the counts of a step are kept, for other threads may still be in it


@dataclass(frozen=True, slots=True)
class Place:
    """The named origin of tensors within a run, such as one call of a module."""

    name: str
    call: int = 0
    step: int = 0
    op: str | None = None
    parent: str | None = None


@final
class Session:
    """Numbers tensors and hands them on. Safe to use from several threads; tensors reach the sink in order of `seq`.

    calls_before: calls counted before the model itself is first called, for a session that repeats another
    """

    def __init__(
        self,
        sink: Sink,
        filters: Filters,
        *,
        rank: int = 0,
        world: int = 1,
        calls_before: Mapping[str, int] | None = None,
    ) -> None:
        self.step = 0
        self.failure: Exception | None = None
        self.calls_before: Mapping[str, int] = {}
        self._sink = sink
        self._filters = filters
        self._rank = rank
        self._world = world
        self._lock = RLock()
        self._seq = 0
        self._calls: defaultdict[int, Counter[str]] = defaultdict(Counter, {0: Counter(calls_before or {})})
        self._process = os.getpid()
        self._steps_begun = 0
        self._examples: dict[str, list[str]] = {}
        self._skipped: Counter[str] = Counter()
        self._asked_for: set[str] = set()

    @property
    def tensors(self) -> int:
        return self._seq

    def wants(self, name: str, role: str) -> bool:
        """True if a tensor is to be recorded; never in a forked process, which shares the files of its parent."""
        return self.failure is None and self._filters.wants(name, role) and os.getpid() == self._process

    def begin_step(self) -> int:
        """The model is called anew: the number of its step, 0 for the first call and for what ran before it."""
        with self._lock:
            if self._steps_begun == 0:
                self.calls_before = dict(self._calls[0])
            self.step = self._steps_begun
            self._steps_begun += 1
            self._calls.pop(self.step - _COUNTED_STEPS, None)
            return self.step

    def count_call(self, name: str, step: int) -> int:
        """Count a call, and return the number of earlier calls of this name in the step."""
        with self._lock:
            calls = self._calls[step]
            calls[name] += 1
            return calls[name] - 1

    def emit(
        self,
        place: Place,
        role: Role,
        values: np.ndarray | int,
        *,
        slot: str = "0",
        attrs: Mapping[str, Any] | None = None,
        sources: tuple[int, ...] = (),
        dims: str | None = None,
    ) -> int:
        """Give the tensor the next `seq`, which is returned, and hand it on; an int names the seq of equal values."""
        with self._lock:
            seq, self._seq = self._seq, self._seq + 1
            record = Record(
                name=place.name,
                role=role,
                slot=slot,
                call=place.call,
                step=place.step,
                rank=self._rank,
                world=self._world,
                seq=seq,
                op=place.op,
                attrs=attrs or {},
                parent=place.parent,
                sources=sources,
                dims=dims,
            )
            self._sink.put(record, values)
        return seq

    def skip(self, name: str, reason: str, *, asked_for: bool = False) -> None:
        """Remember that a tensor is not in the trace, and why; the user hears of it unless it was asked for."""
        with self._lock:
            self._skipped[reason] += 1
            if asked_for:
                self._asked_for.add(reason)
            examples = self._examples.setdefault(reason, [])
            if name not in examples and len(examples) < _SHOWN_EXAMPLES:
                examples.append(name)

    def fail(self, error: Exception) -> None:
        """Stop recording; the first error is kept until there is somebody to tell."""
        with self._lock:
            self.failure = self.failure or error

    def surprises(self) -> list[str]:
        """Return one sentence for each reason tensors were left out that was not requested."""
        return [
            f"left out: {reason} ({_some(self._examples[reason], count)})"
            for reason, count in self._skipped.items()
            if reason not in self._asked_for
        ]

    def summary(self) -> dict[str, Any]:
        """Return the fields of trace.json that are known at the end of a recording."""
        skipped = [
            {"reason": reason, "count": count, "examples": self._examples[reason]}
            for reason, count in self._skipped.items()
        ]
        return {"steps": max(self._steps_begun, 1)} | ({"skipped": skipped} if skipped else {})


def _some(names: list[str], count: int) -> str:
    more = count - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more else "")
