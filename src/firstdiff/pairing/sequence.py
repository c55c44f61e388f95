"""Align two sequences: pair their elements without changing the order of either."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

Two = tuple[int, int]
_TIE = 1e-6


def increasing(pairs: Iterable[Two]) -> list[Two]:
    """The most pairs that stand in the same order on both sides."""
    ordered = sorted(pairs)
    ends: list[int] = []  # the smallest end of a run of each length
    at: list[int] = []
    before: list[int | None] = []
    for number, (_, candidate) in enumerate(ordered):
        length = bisect_left(ends, candidate)
        before.append(at[length - 1] if length else None)
        ends[length : length + 1] = [candidate]
        at[length : length + 1] = [number]
    found: list[Two] = []
    place: int | None = at[-1] if at else None
    while place is not None:
        found.append(ordered[place])
        place = before[place]
    return found[::-1]


def unique_in_both(reference: Sequence[Hashable], candidate: Sequence[Hashable]) -> list[Two]:
    """Elements that occur once on each side and keep their order: they split a long alignment into short ones."""
    our_count, their_count = Counter(reference), Counter(candidate)
    place_of = {element: place for place, element in enumerate(candidate) if their_count[element] == 1}
    return increasing(
        (place, place_of[element])
        for place, element in enumerate(reference)
        if our_count[element] == 1 and element in place_of
    )


def certain_pairs(scores: np.ndarray) -> list[Two]:
    """The pairs that every best alignment has (Needleman-Wunsch, gaps free).

    scores: what each two elements are worth together, -inf for two that cannot be
    """
    ahead = _best_prefixes(scores)
    behind = _best_prefixes(scores[::-1, ::-1])[::-1, ::-1]
    best = ahead[-1, -1]
    through = ahead[:-1, :-1] + scores + behind[1:, 1:]
    optimal = through >= best - _TIE
    without_row = (ahead[:-1] + behind[1:]).max(axis=1) >= best - _TIE
    without_column = (ahead[:, :-1] + behind[:, 1:]).max(axis=0) >= best - _TIE
    alone = (optimal.sum(axis=1) == 1)[:, None] & (optimal.sum(axis=0) == 1)
    certain = optimal & alone & ~without_row[:, None] & ~without_column
    return [(int(row), int(column)) for row, column in np.argwhere(certain)]


def best_pairs(scores: np.ndarray) -> list[Two]:
    """The pairs of one best alignment.

    scores: what each two elements are worth together, -inf for two that cannot be
    """
    behind = _best_prefixes(scores[::-1, ::-1])[::-1, ::-1]
    found: list[Two] = []
    row = column = 0
    while row < scores.shape[0] and column < scores.shape[1]:
        if scores[row, column] + behind[row + 1, column + 1] >= behind[row, column] - _TIE:
            found.append((row, column))
            row, column = row + 1, column + 1
        elif behind[row + 1, column] >= behind[row, column] - _TIE:
            row += 1
        else:
            column += 1
    return found


def _best_prefixes(scores: np.ndarray) -> np.ndarray:
    """The worth of the best alignment of the first i and the first j elements, for all i and j."""
    rows, columns = scores.shape
    best = np.zeros((rows + 1, columns + 1))
    for row in range(rows):
        np.maximum(best[row, 1:], best[row, :-1] + scores[row], out=best[row + 1, 1:])
        np.maximum.accumulate(best[row + 1], out=best[row + 1])
    return best
