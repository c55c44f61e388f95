"""Hypotheses: positions counted from another start, or looked up in other rows of their table."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Fit, Hypothesis
from firstdiff.diagnose.values.tokens import are_ids
from firstdiff.dtypes import doubles

_FEWEST_ROWS = 2
_NAMED_ROWS = 3
_NEAR = 1e-4  # of the table's deviation
_MOST_PRODUCTS = 1 << 31
_FEWEST_POSITIONS, _MOSTLY = 3, 0.5


class PositionOffset(Hypothesis):
    """Positions start at another number.

    A cache is counted twice or not at all, padding counts as tokens, or positions start at 1 or 2 in place of 0.

    Tested on whole numbers that rise by one from token to token on both sides, padding apart. Start where the
    reference starts, and count the tokens that it counts.
    """

    code = "position.offset"

    def applies(self, case: Case) -> bool:
        return case.comparable and are_ids(case.reference_as_recorded) and are_ids(case.candidate_as_recorded)

    def test(self, case: Case) -> Iterator[Explanation]:
        reference, candidate = case.expected, case.candidate
        if not (_count_up(reference) and _count_up(candidate)):
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
        elif offsets.size:
            at = tuple(int(index) for index in np.argwhere(candidate != reference)[0])
            yield Explanation(
                cause=self.code,
                fit=Fit(0.0, 0.0, inf),
                evidence=f"positions count other tokens: {candidate[at]:g} in place of {reference[at]:g} at {list(at)}",
                fix="count the tokens that the reference counts; see what its mask does to positions",
                implies=("ids.mismatch", "offset.constant", "shift.sequence"),
            )


def _count_up(positions: np.ndarray) -> bool:
    """True if numbers rise by one from token to token, apart from padding, which may have one position."""
    if positions.ndim == 0 or positions.shape[-1] < _FEWEST_POSITIONS:
        return False
    steps = np.diff(positions, axis=-1)
    return bool(np.isin(steps, (0, 1)).all() and (steps == 1).mean() > _MOSTLY)


class PositionRows(Hypothesis):
    """A table is read in other rows: positions are those of other places, tokens have other ids.

    A cache is counted twice or not at all, positions start at 1 or 2 in place of 0; ids count from 1, or belong to
    another vocabulary.

    Tested on the reference's table: both sides are rows of it, and not the same ones. Start where the reference
    starts, and look up the ids that the model was given.
    """

    code = "position.offset"
    also = ("ids.mismatch",)

    def applies(self, case: Case) -> bool:
        return bool(case.params) and case.role == "output"

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = case.reference_as_recorded, case.candidate_as_recorded
        for both in case.params.values():
            if both.reference is None or both.reference.ndim != 2:
                continue
            table = doubles(both.reference)
            name = both.key.removesuffix(":param")
            reference, candidate = (_first_row(table, side) for side in sides)
            if reference is None or candidate is None:
                yield from _other_rows(case, name, table)
            elif reference != candidate:
                yield Explanation(
                    cause=self.code,
                    fit=Fit(0.0, 0.0, inf),
                    evidence=f"each side is rows of {name}, from row {candidate} on in place of {reference}",
                    fix=f"start at position {reference}",
                    implies=("shift.sequence", "values.uncorrelated", "layout.reversed"),
                )


def _other_rows(case: Case, name: str, table: np.ndarray) -> Iterator[Explanation]:
    """Explain tokens that are rows of a table, but not those of their ids."""
    sides = case.reference_as_recorded, case.candidate_as_recorded
    eps = dtypes.eps_of(case.dtype)
    reference, candidate = (_rows_taken(table, side, eps) for side in sides)
    if case.op != "Embedding" or reference is None or candidate is None or reference.shape != candidate.shape:
        return
    wrong = np.flatnonzero(reference != candidate)
    if wrong.size:
        first = wrong[:_NAMED_ROWS]
        rows = [", ".join(f"{row}" for row in side[first]) for side in (candidate, reference)]
        yield Explanation(
            cause="ids.mismatch",
            fit=Fit(0.0, 0.0, inf),
            evidence=f"{wrong.size:,} tokens are other rows of {name}: {rows[0]} in place of {rows[1]}, …",
            fix=f"look up the ids that the model was given in {name.rpartition('.')[0]}",
            implies=("shift.sequence", "values.uncorrelated", "weights.differ", "values.stale"),
        )


def _rows_taken(table: np.ndarray, values: np.ndarray | None, eps: float) -> np.ndarray | None:
    """Return the row of the table that each token is; None if some are no row of it."""
    if values is None or values.ndim < 2 or values.shape[-1] != table.shape[1] or not values.size:
        return None
    tokens = doubles(values).reshape(-1, table.shape[1])
    if len(tokens) * table.size > _MOST_PRODUCTS:
        return None
    apart = np.square(table).sum(axis=1) - 2.0 * (tokens @ table.T)
    rows = np.asarray(apart.argmin(axis=1))
    near = np.abs(table[rows] - tokens) <= 2.0 * eps * np.abs(tokens) + _NEAR * float(np.std(table))
    return rows if near.all() else None


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
    near = np.abs(table[start : start + count] - rows[0]).max() <= _NEAR * float(np.std(table))
    return start if near else None


POSITION_ROWS: Final = PositionRows()
POSITION_OFFSET: Final = PositionOffset()
