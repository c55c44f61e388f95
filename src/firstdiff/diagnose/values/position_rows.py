"""Positions looked up at another place of their table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.dtypes import doubles

_LEAST = 2


class PositionRows(Hypothesis):
    """Positions are those of other places: a table of them is read some rows further on, or further back.

    A cache is counted twice or not at all, positions start at 1 or 2 in place of 0.

    Tested on the reference's table: both sides are rows of it that follow one another, from another one on. Start
    where the reference starts.
    """

    code = "position.offset"

    def applies(self, case: Case) -> bool:
        return case.comparable and case.candidate.ndim >= 2 and case.candidate.shape[-2] >= _LEAST

    def test(self, case: Case) -> Iterator[Explanation]:
        for both in case.params.values():
            if both.reference is None or both.reference.ndim != 2:
                continue
            table = doubles(both.reference)
            if table.shape[1] != case.candidate.shape[-1] or not _differ(table):
                continue
            ours, theirs = (_start(table, side) for side in (case.expected, case.candidate))
            if ours is None or theirs is None or ours == theirs:
                continue
            count = case.candidate.shape[-2]
            predicted = np.broadcast_to(table[theirs : theirs + count], case.candidate.shape)
            fit = case.fit(predicted)
            yield Explanation(
                cause=self.code,
                fit=fit,
                evidence=f"{both.key} is read from row {theirs} on in place of {ours}: {case.falls_to(fit)}",
                fix=f"start at position {ours}",
                implies=("shift.sequence", "values.uncorrelated"),
                predicted=predicted,
            )


def _differ(table: np.ndarray) -> bool:
    return len(table) > 1 and bool(np.abs(np.diff(table, axis=0)).max(axis=1).min() > 0)


def _start(table: np.ndarray, values: np.ndarray) -> int | None:
    """The row of the table at which these values, the same in every batch, begin."""
    rows = values.reshape(-1, *values.shape[-2:])
    count = rows.shape[1]
    if count > len(table) or np.abs(rows - rows[:1]).max() > 1e-6 * np.abs(table).max():
        return None
    apart = np.abs(table[: len(table) - count + 1] - rows[0, 0]).max(axis=1)
    start = int(np.argmin(apart))
    near = np.abs(table[start : start + count] - rows[0]).max() <= 1e-4 * float(np.std(table))
    return start if near else None


HYPOTHESIS: Final = PositionRows()
