"""Metrics that need more than sums: relative error, ULPs, and the histogram of differences."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import lru_cache
from typing import final

import numpy as np

from firstdiff.measure.envelope import OCTAVE_SHIFT
from firstdiff.measure.numerics import Grid, total

PERCENTILES = (1, 5, 50, 95, 99)
_NAMES = tuple(map(str, PERCENTILES))
BIN_SHIFT = 47  # leaves a float64's exponent and 5 bits of its fraction: 32 bins an octave
BINS = 1 << (63 - BIN_SHIFT)
_MANY = 8192
_TWICE = 2.0 + 2.0**-40
_EXPONENT = np.int64(0x7FF << OCTAVE_SHIFT)


@final
@dataclass(slots=True)
class Histogram:
    """Counts of |c - r|: of exact zeros, and of each bin from `first` on."""

    zeros: int = 0
    first: int = 0
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(cls, differences: np.ndarray) -> Histogram:
        bins = differences.view(np.int64) >> BIN_SHIFT
        if bins.size > _MANY:
            return cls.of_bins(np.bincount(bins))
        filled = bins[bins > 0]
        if not filled.size:
            return cls(bins.size)
        first = int(filled.min())
        return cls(bins.size - filled.size, first, np.bincount(filled - first))

    @classmethod
    def of_bins(cls, counts: np.ndarray) -> Histogram:
        """From a count for every bin there is."""
        filled = np.flatnonzero(counts[1:])
        if not filled.size:
            return cls(int(counts[0]))
        first, end = int(filled[0]) + 1, int(filled[-1]) + 2
        return cls(int(counts[0]), first, counts[first:end].astype(np.int64))

    def merge(self, other: Histogram) -> None:
        self.zeros += other.zeros
        if not other.counts.size:
            return
        if not self.counts.size:
            self.first, self.counts = other.first, other.counts
            return
        first = min(self.first, other.first)
        end = max(self.first + self.counts.size, other.first + other.counts.size)
        counts = np.zeros(end - first, np.int64)
        for part in (self, other):
            start = part.first - first
            counts[start : start + part.counts.size] += part.counts
        self.first, self.counts = first, counts

    def percentiles(self, top: float) -> dict[str, float]:
        """The value that p percent of the elements do not exceed, within 1/64 of itself; `top` is the largest."""
        if not self.counts.size:
            return dict.fromkeys(_NAMES, 0.0) if self.zeros else {}
        running = self.counts.cumsum()
        count = self.zeros + int(running[-1])
        ranks = [max(-(-p * count // 100), 1) - self.zeros for p in PERCENTILES]
        found = {}
        for name, rank, bin_ in zip(_NAMES, ranks, running.searchsorted(ranks).tolist(), strict=True):
            found[name] = min(_middle_of_bin(self.first + bin_), top) if rank > 0 else 0.0
        return found


@lru_cache(1 << 12)  # the same bins come again in thousands of small tensors
def _middle_of_bin(number: int) -> float:
    low, high = struct.unpack("<2d", struct.pack("<2q", number << BIN_SHIFT, (number + 1) << BIN_SHIFT))
    return float(low / 2 + high / 2)


@final
@dataclass(slots=True)
class Sketch:
    """Taken from `count` elements: all there are, or a fixed sample.

    relative_count, relative_sum: of |c - r| / |r| where r is not 0
    max_ulp: the largest |c - r| in units of the spacing at r
    """

    count: int = 0
    relative_count: int = 0
    relative_sum: float = 0.0
    max_ulp: float = 0.0
    histogram: Histogram = field(default_factory=Histogram)

    def add(self, sizes: np.ndarray, differences: np.ndarray, grid: Grid | None) -> None:
        """Take in |r| and |c - r|."""
        self.count += sizes.size
        self.histogram.merge(Histogram.of(differences))
        if sizes.size and sizes.min() == 0.0:
            kept = sizes != 0.0
            sizes, differences = sizes[kept], differences[kept]
        if not sizes.size:
            return
        ratios = differences / sizes
        self.relative_count += sizes.size
        self.relative_sum += total(ratios)
        # a power of two is more than half of what it is under
        if grid is not None and float(ratios.max()) / grid.eps * _TWICE > self.max_ulp:
            self.max_ulp = max(self.max_ulp, _largest_ulp(sizes, differences, grid))

    def merge(self, other: Sketch) -> None:
        self.count += other.count
        self.relative_count += other.relative_count
        self.relative_sum += other.relative_sum
        self.max_ulp = max(self.max_ulp, other.max_ulp)
        self.histogram.merge(other.histogram)


def _largest_ulp(sizes: np.ndarray, differences: np.ndarray, grid: Grid) -> float:
    power = (sizes.view(np.int64) & _EXPONENT).view(np.float64)
    np.maximum(power, grid.tiny, out=power)
    return float((differences / power).max()) / grid.eps
