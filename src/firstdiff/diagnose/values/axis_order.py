"""Hypothesis: values shifted along an axis; orders and projections of the indices of an axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Final

import numpy as np

from firstdiff.align.stride_search import divisors
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.diagnose.values.sides import Sides, axis_words, typical, views
from firstdiff.rng import Rng

_COLUMNS = 4096
_KEPT = 8
_ROWS = 256


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """The indices of one axis of both sides, each as one row of numbers.

    before: how far apart the rows are as they stand, at most the spread of the candidate's
    """

    axis: int
    ndim: int
    reference: np.ndarray
    candidate: np.ndarray
    before: float

    @staticmethod
    def along(sides: Sides, axis: int) -> Lines:
        """Project the elements of each index with fixed random weights, which keep noise as small as it is."""
        reference, candidate = (_rows_along(side, axis) for side in (sides.reference, sides.candidate))
        if reference.shape[1] > _KEPT:
            weights = _projection(reference.shape[1])
            reference, candidate = reference @ weights, candidate @ weights
        return Lines(axis, sides.ndim, reference, candidate, _initial_difference(reference, candidate))

    def __len__(self) -> int:
        return int(self.reference.shape[0])

    def left_by(self, order: np.ndarray) -> float:
        """Return the fraction of the difference left if index i of the candidate is the reference's `order[i]`."""
        if not self.before:
            return 1.0
        rows = np.arange(len(self)) if len(self) <= _ROWS else np.arange(_ROWS) * len(self) // _ROWS
        return typical(self.candidate[rows] - self.reference[order[rows]]) / self.before

    def left_by_shift(self, lag: int) -> float:
        """Return the fraction of the difference left if index i of the candidate is the reference's i - lag."""
        reference, candidate = (
            (self.reference[:-lag], self.candidate[lag:])
            if lag > 0
            else (self.reference[-lag:], self.candidate[: len(self) + lag])
        )
        before = self.before
        return typical(candidate - reference) / before if before else 1.0


def _initial_difference(reference: np.ndarray, candidate: np.ndarray) -> float:
    apart, spread = typical(candidate - reference), typical(candidate - candidate.mean(axis=0))
    return min(apart, spread)


def _rows_along(values: np.ndarray, axis: int) -> np.ndarray:
    rows = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
    if rows.shape[1] > _COLUMNS:
        rows = rows[:, np.arange(_COLUMNS) * rows.shape[1] // _COLUMNS]
    return np.where(np.isfinite(rows), rows, 0.0)


@lru_cache(maxsize=32)
def _projection(columns: int) -> np.ndarray:
    weights: np.ndarray = Rng(columns).normal((columns, _KEPT)) / columns**0.5  # importing numpy.random takes 7 MB
    weights.setflags(write=False)
    return weights


_MOST_LEFT = 0.3
_MOST_CHUNKS = 64
_LONGEST_MATCHED = 2048
_LONGEST_HEAD = 512
_AS_GOOD_ORDER = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """Index i of the candidate is index `taken[i]` of the reference.

    words: what that is, to follow "the candidate has"
    chosen: how many choices went into it
    """

    cause: str
    taken: np.ndarray
    words: str
    chosen: int


def order_along(lines: Lines, *, any_order: bool = False) -> Order | None:
    """Find the simplest order of an axis that explains most of the difference; None if there is none.

    any_order: look for orders without a rule too
    """
    for family in (_reversed, _cut_twice, _chunked, *([_matched] if any_order else [])):
        found = [(lines.left_by(order.taken), order) for order in family(lines)]
        fitting = [entry for entry in found if entry[0] < _MOST_LEFT]
        if fitting:
            best = min(left for left, _ in fitting)
            return next(order for left, order in fitting if left <= best / _AS_GOOD_ORDER + 1e-9)
    return None


def _reversed(lines: Lines) -> Iterator[Order]:
    if len(lines) > 2:
        yield Order("layout.reversed", np.arange(len(lines))[::-1], "the axis backwards", 1)


def _cut_twice(lines: Lines) -> Iterator[Order]:
    """Yield the axis cut into `p a b q` with a and b exchanged, and its halves and thirds reordered."""
    length = len(lines)
    plain = np.arange(length)
    for count in (2, 3):
        if length % count == 0 and length > count:
            for order in list(permutations(range(count)))[1:]:
                if lines.axis == lines.ndim - 1 or not _is_rolled(np.array(order)):
                    yield _of_chunks(order, length)
    for inner in divisors(length):
        for b in divisors(length // inner)[1:]:
            for a in divisors(length // inner // b)[1:]:
                taken = plain.reshape(-1, a, b, inner).swapaxes(1, 2).reshape(-1)
                yield Order(_layout_cause(lines, a, b, inner), taken, _cut_words(a, b, inner, length), 2)


def _layout_cause(lines: Lines, a: int, b: int, inner: int) -> str:
    if 3 in (a, b):
        return "layout.qkv_order"
    if inner == 1 and 2 in (a, b) and lines.axis == lines.ndim - 1:
        return "layout.rope_interleave" if a * b <= _LONGEST_HEAD else "layout.interleave"
    return "layout.head_order"


def _cut_words(a: int, b: int, inner: int, length: int) -> str:
    outer = length // (a * b * inner)
    before, after = (f"{outer} " if outer > 1 else ""), (f" {inner}" if inner > 1 else "")
    return f"the axis cut into {before}x {a} x {b}{after} with {a} and {b} exchanged".replace("into x", "into")


def _chunked(lines: Lines) -> Iterator[Order]:
    """Yield orders of equal chunks, each matched to the nearest of the reference."""
    length = len(lines)
    for count in divisors(length)[1:]:
        if count > _MOST_CHUNKS:
            return
        cut = lines.reference.reshape(count, -1), lines.candidate.reshape(count, -1)
        order = _nearest_rows(*cut)
        if order is not None and (count < length or _are_heads(lines)):
            yield _of_chunks(tuple(int(at) for at in order), length)


def _matched(lines: Lines) -> Iterator[Order]:
    """Yield the order that matches each index to the nearest of the reference."""
    if not 3 < len(lines) <= _LONGEST_MATCHED or lines.reference.shape[1] < 2:
        return
    order = _nearest_rows(lines.reference, lines.candidate)
    if order is not None:
        yield Order("layout.permuted", order, "its indices in another order", len(lines))


def _of_chunks(order: tuple[int, ...], length: int) -> Order:
    count = len(order)
    taken = np.arange(length).reshape(count, -1)[list(order)].reshape(-1)
    if count == 2:
        return Order("layout.chunk_swap", taken, "its halves swapped", 1)
    if count == 3:
        return Order("layout.qkv_order", taken, f"its thirds in the order {_listed(order)}", 1)
    moved = [at for at, chunk in enumerate(order) if at != chunk]
    which = f"chunks {_listed(tuple(moved))} exchanged" if len(moved) == 2 else f"the order {_listed(order)}"
    return Order("layout.head_order", taken, f"its {count} chunks in another order ({which})", len(moved))


def _nearest_rows(reference: np.ndarray, candidate: np.ndarray) -> np.ndarray | None:
    """Match each row of the candidate to the nearest of the reference; None if that permutes nothing."""
    apart = (
        np.sum(candidate * candidate, axis=1)[:, None]
        - 2 * candidate @ reference.T
        + np.sum(reference * reference, axis=1)[None, :]
    )
    order = np.argmin(apart, axis=1)
    every = np.arange(len(reference))
    if not np.array_equal(np.sort(order), every):
        return None
    return None if _is_rolled(order) or np.array_equal(order, every) else order


def _is_rolled(order: np.ndarray) -> bool:
    """True if an order of more than two indices is a roll."""
    steps = (order - np.arange(order.size)) % order.size
    return order.size > 2 and bool((steps == steps[0]).all())


def _are_heads(lines: Lines) -> bool:
    """True if the axis is an inner one of four or more, where heads are."""
    return lines.ndim >= 4 and 0 < lines.axis < lines.ndim - 1


def _listed(order: tuple[int, ...]) -> str:
    shown = " ".join(map(str, order[:12]))
    return f"{shown} …" if len(order) > 12 else shown


_FARTHEST = 64
_LEAST_LENGTH = 4
_CLEARLY_BETTER = 2.0
_AS_GOOD_LAG = 0.7
_ROUND = "rolled round"
_AS_HEADS = 0.5


class ShiftSequence(Hypothesis):
    """Values stand one or more places further along an axis, rolled round or filled up at the end.

    A token too many at the start, padding on the other side, a convolution without its causal padding, frames that are
    not centred, a target that was shifted twice.

    Tested by moving what the candidate should have along each axis, by up to 64 places. Take away, or add, as many
    places at the start.
    """

    code = "shift.sequence"

    def test(self, case: Case) -> Iterator[Explanation]:
        for sides in views(case):
            for axis, length in enumerate(sides.shape):
                if length >= _LEAST_LENGTH and sides.real:
                    yield from self._along(sides, axis)

    def _along(self, sides: Sides, axis: int) -> Iterator[Explanation]:
        lag = _best_lag(Lines.along(sides, axis))
        if lag is None:
            return
        predicted, filled, unknown = _shifted(sides, axis, lag)
        places = f"{abs(lag)} place{'s' if abs(lag) > 1 else ''}"
        where = axis_words(axis, sides.ndim)
        yield from sides.told(
            self.code,
            predicted,
            f"along {where} the candidate is {places} {'late' if lag > 0 else 'early'}, {filled}",
            f"move it {places} {'back' if lag > 0 else 'on'}: look at what is put in front, cut off or padded",
            assumed=1 + unknown,
            doubt=_AS_HEADS if filled == _ROUND and _moves_whole_chunks(sides, axis, lag) else 0.0,
        )


def _moves_whole_chunks(sides: Sides, axis: int, lag: int) -> bool:
    """True if channels are rolled by a divisor of their number, which is more likely heads in another order."""
    of_channels = axis == sides.ndim - 1 and sides.ndim >= 3 and sides.case.row.audio is None
    return of_channels and abs(lag) > 1 and sides.shape[axis] % abs(lag) == 0


def _best_lag(lines: Lines) -> int | None:
    """Return the shift with the smallest difference, if it is small and clearly below that of most others."""
    most = min(_FARTHEST, len(lines) - max(2, len(lines) // 4))
    lags = [lag for size in range(1, most + 1) for lag in (size, -size)]
    if not lags or not lines.before:
        return None
    left = np.array([lines.left_by_shift(lag) for lag in lags])
    best = int(np.argmax(left <= left.min() / _AS_GOOD_LAG + 1e-6))  # the shortest of nearly equal ones
    clear = left[best] * _CLEARLY_BETTER < float(np.median(left)) if left.size > 2 else True
    return lags[best] if left[best] < _MOST_LEFT and clear else None


@np.errstate(all="ignore")
def _shifted(sides: Sides, axis: int, lag: int) -> tuple[np.ndarray, str, int]:
    """Return the reference shifted along an axis, how its gap is filled, and the count of unknown values."""
    reference, candidate = np.moveaxis(sides.reference, axis, 0), np.moveaxis(sides.candidate, axis, 0)
    allowed = np.moveaxis(sides.allowed, axis, 0)
    moved = np.roll(reference, lag, axis=0)
    free = slice(0, lag) if lag > 0 else slice(lag, None)
    edge = reference[:1] if lag > 0 else reference[-1:]
    for fill, words in ((moved[free], _ROUND), (0.0, "filled with 0"), (edge, "filled with its edge")):
        if np.all(np.abs(candidate[free] - fill) <= allowed[free]):
            moved[free] = fill
            return np.moveaxis(moved, 0, axis), words, 0
    moved[free] = candidate[free]
    return np.moveaxis(moved, 0, axis), "filled with something else", int(candidate[free].size)


SHIFT_SEQUENCE: Final = ShiftSequence()
