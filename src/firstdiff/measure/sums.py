"""Sums over a pair, its rows and its channels, from which systematic errors are found.

The last axis of a tensor holds its channels; a row is one index of all the other axes. All sums are over the elements
that are finite on both sides; `r` is the reference, `d` the candidate minus the reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import final

import numpy as np

COUNT, R, RR, D, DD, RD, LARGEST = range(7)
FIGURES = 7

_MANY = 1 << 20  # elements from which on a sample of the rows does for the channels
_FEWEST_ROWS, _ENOUGH_ROWS = 64, 256  # that the sample has
_MOST_CHANNELS = 1 << 16  # with more of them, each of few rows, they say little and take much memory


@dataclass(frozen=True, slots=True)
class Sums:
    """Of a whole pair.

    count: elements that are finite on both sides
    r, rr, d, dd, rd: the sums of r, r^2, d, d^2 and r * d
    max_abs: the largest |d|
    """

    count: int
    r: float
    rr: float
    d: float
    dd: float
    rd: float
    max_abs: float


@final
@dataclass(frozen=True, slots=True, eq=False)
class SumTable:
    """The same as `Sums` for every row or every channel: arrays of one length."""

    count: np.ndarray
    r: np.ndarray
    rr: np.ndarray
    d: np.ndarray
    dd: np.ndarray
    rd: np.ndarray
    max_abs: np.ndarray

    def __len__(self) -> int:
        return len(self.count)


@final
@dataclass(frozen=True, slots=True, eq=False)
class PairSums:
    """The sums of a scan.

    total: over all elements
    rows: one entry for every `rows_together` rows that follow each other; None for whole and complex numbers
    rows_together: 1, unless rows are short and many
    channels: one entry for every index of the last axis; None as above, and where there is one row, or one channel,
        or more than 65,536 of them
    channel_rows: every so many rows, one was summed into the channels; 1: all were
    reference_whole, candidate_whole: every finite value of that side is a whole number
    """

    total: Sums
    rows: SumTable | None
    rows_together: int
    channels: SumTable | None
    channel_rows: int
    reference_whole: bool
    candidate_whole: bool


@dataclass(frozen=True, slots=True)
class RowPlan:
    """The grouping of rows and channels for sums, fixed by the shape alone.

    row: elements of a row; rows: how many there are
    together: rows that share an entry; channel_rows: every so many, one is summed by channels, 0: none
    """

    row: int
    rows: int
    together: int
    channel_rows: int

    @property
    def group(self) -> int:
        """Elements that share an entry."""
        return self.row * self.together

    def groups(self, start: int, stop: int) -> tuple[int, int]:
        """The first entry of a range of elements, and how many there are."""
        first = start // self.group
        return first, (max(stop, start + 1) - 1) // self.group - first + 1


def row_plan(shape: tuple[int, ...]) -> RowPlan:
    """Tell how the rows of a shape are summed."""
    size = prod(shape)
    if not size or not shape:
        return RowPlan(1, max(size, 1), 1, 0)
    row, rows = shape[-1], size // shape[-1]
    # an entry costs as much as a few hundred elements, which short rows of large tensors do not have
    least = 16 if size <= 1 << 16 else 64 if size <= _MANY else 512
    stride = 1
    if size > _MANY:
        stride = max(1, min(max(rows // _ENOUGH_ROWS, 4), rows // _FEWEST_ROWS)) | 1  # odd, lest it keep to a few heads
    is_grid = rows > 1 and 1 < row <= _MOST_CHANNELS
    return RowPlan(row, rows, min(max(least // row, 1), rows), stride if is_grid else 0)


@final
class RowSums:
    """Row and channel sums of a stretch, worked out by numpy."""

    def __init__(self, plan: RowPlan, start: int, stop: int) -> None:
        self._plan = plan
        self.first, count = plan.groups(start, stop)
        self.rows = np.zeros((count, FIGURES))
        self.channels = np.zeros((FIGURES, plan.row)) if plan.channel_rows else None

    def add(self, r: np.ndarray, d: np.ndarray, finite: np.ndarray | None, start: int) -> None:
        """Take in a block; r and d are 0 where `finite`, if given, is not 1."""
        counted = np.ones(r.size) if finite is None else finite.astype(np.float64)
        figures = [counted, r, r * r, d, d * d, r * d]
        group = self._plan.group
        first = start // group
        begins = np.maximum(np.arange(first * group, start + r.size, group) - start, 0)
        part = self.rows[first - self.first : first - self.first + begins.size]
        for which, values in enumerate(figures):
            part[:, which] += np.add.reduceat(values, begins)
        part[:, LARGEST] = np.maximum(part[:, LARGEST], np.maximum.reduceat(np.abs(d), begins))
        if self.channels is not None:
            self._add_channels(self.channels, figures, start)

    def _add_channels(self, sums: np.ndarray, figures: list[np.ndarray], start: int) -> None:
        """Take in the sampled rows, or the parts of them, that lie in a block."""
        row, stride, size = self._plan.row, self._plan.channel_rows, figures[R].size
        sampled = np.arange(-(-(start // row) // stride) * stride, (start + size - 1) // row + 1, stride)
        channel = np.tile(np.arange(row), sampled.size)
        places = np.repeat(sampled * row - start, row) + channel
        inside = (places >= 0) & (places < size)
        places, channel = places[inside], channel[inside]
        for which, values in enumerate(figures):
            sums[which] += np.bincount(channel, values[places], row)
        np.maximum.at(sums[LARGEST], channel, np.abs(figures[D][places]))


@dataclass(frozen=True, slots=True, eq=False)
class RowPart:
    """Row and channel sums of a stretch; `first` is the entry that its first row belongs to."""

    first: int
    rows: np.ndarray
    channels: np.ndarray | None


def join_rows(parts: list[RowPart]) -> tuple[SumTable | None, SumTable | None]:
    """The tables of rows and channels, from stretches in the order of the data; two may share a row.

    What the parts hold is used up.
    """
    if not parts:
        return None, None
    if len(parts) == 1:
        (only,) = parts
        return SumTable(*only.rows.T), None if only.channels is None else SumTable(*only.channels)
    rows = [parts[0].rows]
    channels = None if parts[0].channels is None else parts[0].channels.copy()
    end = parts[0].first + len(parts[0].rows)
    for part in parts[1:]:
        fresh = part.rows
        if part.first < end:
            _add_to(rows[-1][-1], fresh[0])
            fresh = fresh[1:]
        if len(fresh):
            rows.append(fresh)
        end = part.first + len(part.rows)
        if channels is not None and part.channels is not None:
            _add_to(channels, part.channels)
    return SumTable(*np.concatenate(rows).T), None if channels is None else SumTable(*channels)


def _add_to(sums: np.ndarray, others: np.ndarray) -> None:
    """Take in figures of the same rows or channels; the first axis tells which figure."""
    np.add(sums[:LARGEST], others[:LARGEST], out=sums[:LARGEST])
    np.maximum(sums[LARGEST:], others[LARGEST:], out=sums[LARGEST:])
