"""Select cases and healthy pairs by words of the command line."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from firstdiff.errors import UsageError, did_you_mean
from firstdiff.testing.zoo.architectures import ARCHITECTURES
from firstdiff.testing.zoo.case import Case, cases
from firstdiff.testing.zoo.faults import FAULTS
from firstdiff.testing.zoo.healthy import WAYS, HealthyPair, healthy_pairs

_TABLES: tuple[Mapping[str, object], ...] = (FAULTS, ARCHITECTURES, WAYS)


def selected(
    only: Collection[str] = (), seed: int = 0, *, held_out: bool = False
) -> tuple[list[Case], list[HealthyPair]]:
    """Cases and healthy pairs.

    only: names of faults, architectures and ways of running a healthy pair; everything if left out
    held_out: the cases that were kept apart, instead of the others
    """
    for name in only:
        if not any(name in table for table in _TABLES):
            every = [known for table in _TABLES for known in table]
            raise UsageError(f"the zoo has no {name!r}{did_you_mean(name, every)}")
    kinds, architectures, ways = ([name for name in only if name in table] for table in _TABLES)
    some = bool(kinds or ways)
    return (
        cases(kinds, architectures, seed, held_out=held_out) if kinds or not some else [],
        healthy_pairs(ways, architectures, seed) if ways or not (some or held_out) else [],
    )
