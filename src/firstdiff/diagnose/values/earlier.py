"""Earlier tensors of the candidate with the shape of a case."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from firstdiff.diagnose.case import Case

_MOST = 128
_SAMPLE = 256


@dataclass(frozen=True, slots=True, eq=False)
class Before:
    """A tensor of the shape of the case that the candidate had earlier.

    is_input: the case's operation was given it
    guessed: that is not recorded, but it came right before
    """

    key: str
    name: str
    candidate: np.ndarray
    reference: np.ndarray
    is_input: bool
    guessed: bool


def before(case: Case) -> list[Before]:
    """The last ones first."""
    found = case.shared.get("before")
    if found is None:
        found = case.shared["before"] = list(_searched(case))
    return list(found)


def _searched(case: Case) -> Iterator[Before]:
    recorded = {both.key for both in (*case.inputs.values(), *(() if case.sources_guessed else case.sources))}
    inputs = recorded | {both.key for both in case.sources}
    for row in islice(case.nearby.earlier(), _MOST):
        if np.isfinite(row.candidate).all():
            is_input = row.key in inputs
            yield Before(
                row.key, row.name, row.candidate, row.reference, is_input, is_input and row.key not in recorded
            )


def places(size: int) -> np.ndarray:
    """Some places of a flat tensor, spread evenly."""
    return np.arange(size) if size <= _SAMPLE else np.arange(_SAMPLE) * size // _SAMPLE
