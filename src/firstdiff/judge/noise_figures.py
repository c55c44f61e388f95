"""Figures of a difference that separate rounding noise from errors, all from sums over rows and channels.

Healthy runs of trained models differ by very different amounts: the noise of a bf16 run is half an eps in one model
and twenty in another. What tells an error from noise is its form: one that is *coherent* (everything too large, or
shifted one way), one that sits in a single row, channel or element, or a level far above that of everything upstream.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from typing import Any, Self

import numpy as np

from firstdiff.measure.sums import PairSums, SumTable

_EMPTY = 0.1  # of the typical size: rows and channels smaller than this are judged by it
_MASSIVE = 3.0  # times the median row: what goes beyond it is a few massive values, which do not set the scale
_LEAST_LINES = 8  # rows and channels that a consensus needs
_LEAST_SIZE = 0.03  # of the size of all: channels this small have gains of noise only
_FEW_ROWS = 16  # with fewer the gain of a single channel is not known well enough
_MASK_SHARE = 0.5


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


@dataclass(frozen=True, slots=True)
class NoiseFigures:
    """A difference in eps of the coarser type; 0 where there are too few rows or channels to tell.

    noise: relative L2 of the whole
    level: the least of `noise` and the medians over rows and channels: what the difference is everywhere
    typical: the middle one of the three
    scale: how much too large all values are, where the whole, the median row and the median channel agree
    shift: the same for a constant, in local RMS
    row, channel: the worst row's relative L2, the worst channel's gain, and their indices
    odd_channel: how far one channel's gain is from those of the others, in deviations of theirs
    odd_gain: that gain, in eps
    element: the worst element against its row, its channel and itself; None where nobody looked
    """

    rows: int
    channels: int
    noise: float
    level: float
    typical: float
    scale: float
    shift: float
    row: float
    row_index: int
    channel: float
    channel_index: int
    odd_channel: float
    odd_index: int
    odd_gain: float
    element: float | None = None

    def with_element(self, element: float) -> NoiseFigures:
        return replace(self, element=element)

    def to_plain(self) -> dict[str, Any]:
        """By name, as JSON's own types; `asdict` would copy every number deeply, which takes longer than the scan."""
        return {name: getattr(self, name) for name in self.__slots__}


@np.errstate(all="ignore")
def noise_figures(sums: NoiseSums, eps: float) -> NoiseFigures | None:
    """Work out all figures but the element's; None where the sides are equal or the reference is all zeros.

    eps: of the coarsest type that either side was computed in
    """
    rows, channels, total = sums.rows, sums.channels, sums.rows.total
    if total.rr[0] == 0 or total.dd[0] == 0 or eps == 0:
        return None
    noise = float(np.sqrt(total.dd[0] / total.rr[0])) / eps
    levels = sorted((noise, median(rows.noise) / eps, median(channels.noise) / eps))
    many = len(rows) >= _LEAST_LINES and len(channels) >= _LEAST_LINES
    row, row_index = _worst_row(rows)
    channel, channel_index = _worst_channel(channels) if len(rows) >= _LEAST_LINES else (0.0, 0)
    odd, odd_index, odd_gain = _odd_channel(channels, len(rows), eps)
    return NoiseFigures(
        rows=len(rows),
        channels=len(channels),
        noise=noise,
        level=levels[0],
        typical=levels[1],
        scale=_scale(total, rows, channels) / eps if many else 0.0,
        shift=_shift(total, rows, channels) / eps if many else 0.0,
        row=row / eps,
        row_index=row_index,
        channel=channel / eps,
        channel_index=channel_index,
        odd_channel=odd,
        odd_index=odd_index,
        odd_gain=odd_gain,
    )


def suspicious_rows(sums: NoiseSums, limit: float) -> np.ndarray:
    """Rows in which an element may be beyond a limit; their values have to be looked at, those of others need not.

    limit: relative, the eps included
    """
    suspect = sums.rows.max_d > limit * sums.rows.sizes
    channels = sums.channels.max_d > limit * sums.channels.sizes
    # channels may be of a sample of rows, so that they can only speak when they have seen them all
    seen_all = sums.channels.count.sum() >= sums.rows.count.sum()
    return np.flatnonzero(suspect) if channels.any() or not seen_all else np.flatnonzero(suspect[:0])


@np.errstate(all="ignore")
def worst_element(
    reference: np.ndarray, candidate: np.ndarray, row_rms: np.ndarray, channel_rms: np.ndarray, *, local: bool = False
) -> float:
    """The largest |d| / (max(row RMS, channel RMS) + |r|) of some rows, as a plain ratio.

    reference, candidate: the rows, as a matrix
    row_rms: of these rows
    local: of an operation on each element alone, which takes no noise from its row: a tenth of the smaller RMS
    """
    r = as_rows(reference)
    d = as_rows(candidate) - r
    sizes = row_rms[:, None], channel_rms[None, :]
    scale = 0.1 * np.minimum(*sizes) if local else np.maximum(*sizes)
    ratio = np.where(d == 0, 0.0, np.abs(d) / (scale + np.abs(r)))
    return float(np.max(ratio, where=np.isfinite(d), initial=0.0))


def median(values: np.ndarray) -> float:
    """As np.median, which takes four times as long for the few numbers there are."""
    if not values.size:
        return 0.0
    ordered = np.sort(values)  # NaN come last
    low, high, last = ordered[(values.size - 1) // 2], ordered[values.size // 2], ordered[-1]
    return float(last if np.isnan(last) else (low + high) / 2)


def _consensus(estimates: tuple[float, ...]) -> float:
    """The least of some estimates that all point one way; 0 where they do not."""
    one_way = all(estimate > 0 for estimate in estimates) or all(estimate < 0 for estimate in estimates)
    return min(estimates, key=abs) if one_way and all(map(isfinite, estimates)) else 0.0


def _scale(total: LineSums, rows: LineSums, channels: LineSums) -> float:
    n, mean = total.count[0], total.r[0] / total.count[0]
    variance = total.rr[0] - n * mean**2
    slope = float((total.rd[0] - mean * total.d[0]) / variance) if variance > 1e-12 * total.rr[0] else 0.0
    return _consensus((slope, *(median(lines.gains) for lines in (rows, channels) if lines.gains.size)))


def _shift(total: LineSums, *tables: LineSums) -> float:
    size = float(np.sqrt(total.rr[0] / total.count[0]))
    whole = float(total.d[0] / total.count[0]) / size
    shifts = []
    for lines in tables:
        used = lines.sizes > _LEAST_SIZE * size
        shifts.append(median(lines.d[used] / lines.count[used] / lines.sizes[used]))
    return _consensus((whole, *shifts))


def _floor(lines: LineSums) -> float:
    """The least size that a line counts as having; a few massive values must not make all others look empty."""
    typical = median(lines.sizes)
    return _EMPTY * (min(lines.size, _MASSIVE * typical) if typical > 0 else lines.size)


def _worst_row(rows: LineSums) -> tuple[float, int]:
    """Rows of which a mask leaves only a few elements are left to the figure of elements."""
    errors = np.sqrt(rows.dd / np.maximum(rows.count, 1)) / np.maximum(rows.sizes, _floor(rows))
    errors[rows.count < max(_LEAST_LINES, _MASK_SHARE * float(rows.count.max(initial=0)))] = 0.0
    worst = int(np.argmax(errors))
    return float(errors[worst]), worst


def _worst_channel(channels: LineSums) -> tuple[float, int]:
    gains = np.abs(channels.rd) / (channels.rr + _floor(channels) ** 2 * channels.count)
    worst = int(np.argmax(np.nan_to_num(gains)))
    return float(gains[worst]), worst


def _active(lines: LineSums) -> np.ndarray:
    """Return the effective number of elements of each line; a channel after a ReLU may be nonzero in few rows."""
    if (lines.r < 0).any():
        return np.asarray(np.maximum(lines.count - 1, 1))
    return np.asarray(np.clip(lines.r**2 / lines.rr, 1, lines.count))


def _odd_channel(channels: LineSums, rows: int, eps: float) -> tuple[float, int, float]:
    """One channel's gain against those of all others and against the uncertainty of its own."""
    if rows < _FEW_ROWS or len(channels) < _LEAST_LINES:
        return 0.0, 0, 0.0
    used = np.flatnonzero(channels.sizes > _LEAST_SIZE * channels.size)
    if len(used) < _LEAST_LINES:
        return 0.0, 0, 0.0
    lines = channels.where(used)
    gains = lines.rd / lines.rr
    middle = median(gains)
    spread = 1.48 * median(np.abs(gains - middle))
    noise = np.sqrt(lines.dd / lines.rr)
    unsure = np.maximum(np.sqrt(np.maximum(noise**2 - gains**2, 0.0)), median(noise)) / np.sqrt(_active(lines))
    odd = np.abs(gains - middle) / (spread + 2 * unsure + 0.1 * eps)
    worst = int(np.argmax(odd))
    return float(odd[worst]), int(used[worst]), float(gains[worst] - middle) / eps
