"""Sums over the rows and channels of a pair, of which the figures of its difference are made."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from firstdiff.measure.sums import PairSums, SumTable


@dataclass(frozen=True, eq=False)
class LineSums:
    """Sums over each of several lines (rows or channels), where r is the reference and d = candidate - r.

    Most figures are made of the same few, which are worked out once:

    sizes: root mean square of the reference in each line; size: of all lines as one
    noise, gains: relative L2 and slope of each line in which the reference is not 0
    total: all lines as one
    """

    count: np.ndarray
    r: np.ndarray
    rr: np.ndarray
    d: np.ndarray
    dd: np.ndarray
    rd: np.ndarray
    max_d: np.ndarray

    def __len__(self) -> int:
        return len(self.count)

    @cached_property
    def sizes(self) -> np.ndarray:
        return np.asarray(np.sqrt(self.rr / np.maximum(self.count, 1)))

    @cached_property
    def size(self) -> float:
        return float(np.sqrt(self.rr.sum() / max(self.count.sum(), 1)))

    @cached_property
    def noise(self) -> np.ndarray:
        used = self.rr > 0
        return np.asarray(np.sqrt(self.dd[used] / self.rr[used]))

    @cached_property
    def gains(self) -> np.ndarray:
        used = self.rr > 0
        return np.asarray(self.rd[used] / self.rr[used])

    def where(self, keep: np.ndarray) -> LineSums:
        """Only some of the lines."""
        return LineSums(*(values[keep] for values in self._arrays()))

    @cached_property
    def total(self) -> LineSums:
        count, r, rr, d, dd, rd = (np.asarray([values.sum()]) for values in self._arrays()[:-1])
        return LineSums(count, r, rr, d, dd, rd, np.asarray([self.max_d.max(initial=0.0)]))

    def _arrays(self) -> tuple[np.ndarray, ...]:
        return self.count, self.r, self.rr, self.d, self.dd, self.rd, self.max_d


@dataclass(frozen=True, slots=True)
class NoiseSums:
    """The sums of one pass over a pair.

    rows: over the last axis, for every other index; all rows of the tensor
    channels: for every index of the last axis; over all rows, or a fixed sample of them
    """

    rows: LineSums
    channels: LineSums

    @classmethod
    def of(cls, reference: np.ndarray, candidate: np.ndarray, counted: np.ndarray | None = None) -> Self:
        """The plain definition, for arrays that fit into memory.

        counted: False where an element is not to be looked at, such as a mask's filler; NaN and infinities never are
        """
        ref, cand = as_rows(reference), as_rows(candidate)
        keep = np.isfinite(ref) & np.isfinite(cand)
        if counted is not None:
            keep &= as_rows(counted).astype(bool)
        whole = bool(keep.all())
        r = ref if whole else np.where(keep, ref, 0.0)
        d = (cand if whole else np.where(keep, cand, 0.0)) - r
        return cls(*(_line_sums(r, d, keep, axis) for axis in (1, 0)))

    @classmethod
    def from_scan(cls, sums: PairSums) -> Self | None:
        """The sums that were taken while a pair was measured; None where there are none."""
        if sums.rows is None:
            return None
        # of a single row the channels are its elements, which tell nothing that the row does not
        return cls(_lines_of(sums.rows), _lines_of(sums.channels or sums.rows))


def _lines_of(table: SumTable) -> LineSums:
    return LineSums(table.count, table.r, table.rr, table.d, table.dd, table.rd, table.max_abs)


def as_rows(values: Any) -> np.ndarray:
    """A tensor as rows of its last axis, in float64."""
    array = np.asarray(values)
    flat = array.reshape(-1, array.shape[-1]) if array.ndim > 1 else array.reshape(1, -1)
    return flat.astype(np.float64)


def _line_sums(r: np.ndarray, d: np.ndarray, keep: np.ndarray, axis: int) -> LineSums:
    def over(values: np.ndarray) -> np.ndarray:
        return np.asarray(values.sum(axis=axis), dtype=np.float64)

    return LineSums(
        over(keep), over(r), over(r * r), over(d), over(d * d), over(r * d), np.abs(d).max(axis=axis, initial=0.0)
    )
