"""Keep traces open between requests."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

from firstdiff.errors import FirstdiffError
from firstdiff.schema import Comparison
from firstdiff.store import Store
from firstdiff.store.inputs import open_side
from firstdiff.store.results import Result
from firstdiff.trace import Trace

_MOST = 4


@dataclass(frozen=True, slots=True)
class OpenSides:
    """The traces of a comparison, or the errors of those that cannot be opened."""

    traces: dict[str, Trace]
    errors: dict[str, str]


@final
@dataclass(frozen=True, slots=True)
class _Kept:
    """A slot for a value that is made once."""

    lock: threading.Lock
    made: list[Any] = field(default_factory=list)


@final
class Opened:
    """Cache of the most recently used comparisons."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, ...], _Kept] = OrderedDict()

    def traces(self, store: Store, comparison: str) -> OpenSides:
        """Return the sides that can be opened."""
        job = store.job(comparison)
        stamp = repr([store.stamp(given) for given in job.sides.values()])
        found: OpenSides = self._remember(("traces", comparison, stamp), lambda: _open(store, comparison))
        return found

    def comparison(self, comparison: str, result: Result) -> Comparison:
        """Return the whole result of a comparison."""
        found: Comparison = self._remember(("comparison", comparison, str(result.folder)), result.comparison)
        return found

    def forget(self, comparison: str) -> None:
        with self._lock:
            for key in [key for key in self._kept if key[1] == comparison]:
                del self._kept[key]

    def _remember(self, key: tuple[str, ...], make: Callable[[], Any]) -> Any:
        """Return the cached value, or make it; only requests for the same key wait for it."""
        with self._lock:
            kept = self._kept.setdefault(key, _Kept(threading.Lock()))
            self._kept.move_to_end(key)
            while len(self._kept) > _MOST:
                self._kept.popitem(last=False)
        with kept.lock:
            if not kept.made:
                kept.made.append(make())
            return kept.made[0]


def _open(store: Store, comparison: str) -> OpenSides:
    traces: dict[str, Trace] = {}
    errors: dict[str, str] = {}
    job = store.job(comparison)
    for side, given in job.sides.items():
        try:
            traces[side] = open_side(store, given, job.options.get("order"))
        except FirstdiffError as error:
            errors[side] = str(error)
    return OpenSides(traces, errors)
