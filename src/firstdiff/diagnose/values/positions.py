"""Hypotheses: positions counted from another start, or looked up in other rows of their table."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Fit, Hypothesis
from firstdiff.diagnose.values.tokens import are_ids
from firstdiff.dtypes import doubles

_FEWEST_ROWS = 2


class PositionOffset(Hypothesis):
    """Positions start at another number.

    A cache is counted twice or not at all, padding counts as tokens, or positions start at 1 or 2 in place of 0.

    Tested on whole numbers that rise by one from token to token on both sides. Start where the reference starts.
    """

    code = "position.offset"

    def applies(self, case: Case) -> bool:
        return case.comparable and are_ids(case.reference_as_recorded) and are_ids(case.candidate_as_recorded)

    def test(self, case: Case) -> Iterator[Explanation]:
        reference, candidate = case.expected, case.candidate
        if reference.shape[-1:] < (3,) or not all(
            np.all(np.diff(side, axis=-1) == 1) for side in (reference, candidate)
        ):
            return
        offsets = np.unique(candidate - reference)
        if offsets.size == 1:
            fit = case.fit(reference + offsets[0])
            yield Explanation(
                cause=self.code,
                fit=fit,
                evidence=f"positions start at {candidate.flat[0]:g} in place of {reference.flat[0]:g}: "
                f"{case.falls_to(fit)}",
                fix=f"start at {reference.flat[0]:g}",
                implies=("ids.mismatch", "offset.constant", "shift.sequence"),
                predicted=reference + offsets[0],
            )


class PositionRows(Hypothesis):
    """Positions are those of other places: a table of them is read some rows further on, or further back.

    A cache is counted twice or not at all, positions start at 1 or 2 in place of 0.

    Tested on the reference's table: both sides are rows of it that follow one another, from another one on. Start
    where the reference starts.
    """

    code = "position.offset"

    def applies(self, case: Case) -> bool:
        return bool(case.params) and case.role == "output"

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = case.reference_as_recorded, case.candidate_as_recorded
        for both in case.params.values():
            if both.reference is None or both.reference.ndim != 2:
                continue
            table = doubles(both.reference)
            reference, candidate = (_first_row(table, side) for side in sides)
            if reference is None or candidate is None or reference == candidate:
                continue
            name = both.key.removesuffix(":param")
            yield Explanation(
                cause=self.code,
                fit=Fit(0.0, 0.0, inf),
                evidence=f"each side is rows of {name}, from row {candidate} on in place of {reference}",
                fix=f"start at position {reference}",
                implies=("shift.sequence", "values.uncorrelated", "layout.reversed"),
            )


def _first_row(table: np.ndarray, values: np.ndarray | None) -> int | None:
    """Return the row of the table at which these values begin; None if they are not consecutive rows of it."""
    if values is None or values.ndim < 2 or values.shape[-1] != table.shape[1] or not values.size:
        return None
    rows = doubles(values).reshape(-1, *values.shape[-2:])
    count = rows.shape[1]
    if not _FEWEST_ROWS <= count <= len(table) or np.abs(rows - rows[:1]).max() > 1e-6 * np.abs(table).max():
        return None
    apart = np.abs(table[: len(table) - count + 1] - rows[0, 0]).max(axis=1)
    start = int(np.argmin(apart))
    near = np.abs(table[start : start + count] - rows[0]).max() <= 1e-4 * float(np.std(table))
    return start if near else None


POSITION_ROWS: Final = PositionRows()
POSITION_OFFSET: Final = PositionOffset()
