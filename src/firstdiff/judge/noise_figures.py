"""Figures of a difference that separate rounding noise from errors, all from sums over rows and channels.

Healthy runs of trained models differ by very different amounts: the noise of a bf16 run is half an eps in one model
and twenty in another. What tells an error from noise is its form: one that is *coherent* (everything too large, or
shifted one way), one that sits in a single row, channel or element, or a level far above that of everything upstream.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np

from firstdiff.judge.noise_sums import LineSums, NoiseSums, as_rows

_EMPTY = 0.1  # of the typical size: rows and channels smaller than this are judged by it
_MASSIVE = 3.0  # times the median row: what goes beyond it is a few massive values, which do not set the scale
LEAST_LINES = 8  # rows and channels that a consensus needs
_LEAST_SIZE = 0.03  # of the size of all: channels this small have gains of noise only
_FEW_ROWS = 16  # with fewer the gain of a single channel is not known well enough
_MASK_SHARE = 0.5
_FEW = 3  # elements of a line of which one is not told from all


@dataclass(frozen=True, slots=True)
class NoiseFigures:
    """A difference in eps of the coarser type; 0 where there are too few rows or channels to tell.

    noise: relative L2 of the whole
    level: the least of `noise` and the medians over rows and channels: what the difference is everywhere
    typical: the middle one of the three
    scale: how much too large all values are, where the whole, the median row and the median channel agree
    sure_scale: the same where three quarters of rows and channels are at least that much too large
    own_scale: the largest gain, one way or the other, that the whole or a quarter of rows or channels have
    shift, sure_shift: the same two for a constant, in local RMS
    row, channel: the worst row's relative L2, the worst channel's gain, and their indices
    odd_channel: how far one channel's gain is from those of the others, in their deviations
    odd_gain: that gain, in eps
    element: the worst element against its row, its channel and itself; None where nobody looked
    row_noise: the RMS of that over the worst row; None where nobody looked
    elements: how many there are; 0 where that was not kept
    maps: planes of a tensor of four axes or more; rows and columns of a single one are of one feature, and agree
    """

    rows: int
    channels: int
    noise: float
    level: float
    typical: float
    scale: float
    sure_scale: float
    own_scale: float
    shift: float
    sure_shift: float
    row: float
    row_index: int
    channel: float
    channel_index: int
    odd_channel: float
    odd_index: int
    odd_gain: float
    element: float | None = None
    row_noise: float | None = None
    row_noise_index: int = 0
    elements: int = 0
    maps: int = 0

    def of_maps(self, maps: int) -> NoiseFigures:
        """Return figures of so many planes; one feature's gain and shift are not those of all values."""
        if maps != 1:
            return replace(self, maps=maps)
        return replace(self, maps=1, scale=0.0, sure_scale=0.0, own_scale=0.0, shift=0.0, sure_shift=0.0)

    def with_worst(self, worst: WorstElements, eps: float) -> NoiseFigures:
        return replace(self, **worst.in_eps(eps))

    def to_plain(self) -> dict[str, Any]:
        """By name, as JSON's own types; `asdict` would copy every number deeply, which takes longer than the scan."""
        return {name: getattr(self, name) for name in self.__slots__}


@np.errstate(all="ignore")
def noise_figures(sums: NoiseSums, eps: float, *, sparse: bool = False) -> NoiseFigures | None:
    """Work out all figures but the element's; None where the sides are equal or the reference is all zeros.

    eps: of the coarsest type that either side was computed in
    sparse: most lines may be nearly empty, as features are that a ReLU switches off, and do not tell what is usual
    """
    rows, channels, total = sums.rows, sums.channels, sums.rows.total
    if total.rr[0] == 0 or total.dd[0] == 0 or eps == 0:
        return None
    noise = float(np.sqrt(total.dd[0] / total.rr[0])) / eps
    levels = sorted((noise, median(rows.noise) / eps, median(channels.noise) / eps))
    many = len(rows) >= LEAST_LINES and len(channels) >= LEAST_LINES
    row, row_index = _worst_row(rows, sparse=sparse)
    channel, channel_index = _worst_channel(channels, sparse=sparse) if len(rows) >= LEAST_LINES else (0.0, 0)
    scale, sure_scale, own_scale = _scale(total, rows, channels) if many else (0.0, 0.0, 0.0)
    shift, sure_shift = _shift(total, rows, channels) if many else (0.0, 0.0)
    odd, odd_index, odd_gain = _odd_channel(channels, len(rows), eps)
    return NoiseFigures(
        rows=len(rows),
        channels=len(channels),
        noise=noise,
        level=levels[0],
        typical=levels[1],
        scale=scale / eps,
        sure_scale=sure_scale / eps,
        own_scale=own_scale / eps,
        shift=shift / eps,
        sure_shift=sure_shift / eps,
        row=row / eps,
        row_index=row_index,
        channel=channel / eps,
        channel_index=channel_index,
        odd_channel=odd,
        odd_index=odd_index,
        odd_gain=odd_gain,
        elements=int(total.count[0]),
    )


def suspicious_rows(sums: NoiseSums, element: float, row_noise: float, together: int = 1) -> np.ndarray:
    """Rows that may hold an element beyond its limit, or noise beyond its limit, those furthest to it first.

    element, row_noise: limits, relative, the eps included
    together: rows that share an entry of the sums
    """
    sizes = sums.rows.sizes
    with np.errstate(all="ignore"):
        spikes = _nan_as_zero(sums.rows.max_d / sizes / element)
        noise = np.sqrt(together * sums.rows.dd / np.maximum(sums.rows.count, 1)) / sizes
        noise = _nan_as_zero(noise / row_noise)
    channels = sums.channels.max_d > element * sums.channels.sizes
    # channels may be of a sample of rows, so that they can only speak when they have seen them all
    if not channels.any() and sums.channels.count.sum() >= sums.rows.count.sum():
        spikes = np.zeros_like(spikes)
    beyond = np.maximum(spikes, noise)
    order = np.argsort(-beyond, kind="stable")
    return np.asarray(order[: np.count_nonzero(beyond > 1)])


@dataclass(frozen=True, slots=True)
class WorstElements:
    """The elements furthest off, as plain ratios to what is usual around them.

    element: of all; row_noise: RMS over the worst row; row_index: of that row
    """

    element: float = 0.0
    row_noise: float = 0.0
    row_index: int = 0

    def in_eps(self, eps: float) -> dict[str, Any]:
        """By the names that they have among the figures."""
        return {
            "element": self.element / eps,
            "row_noise": self.row_noise / eps,
            "row_noise_index": self.row_index,
        }

    def or_worse(self, other: WorstElements) -> WorstElements:
        noisier = self if self.row_noise >= other.row_noise else other
        return replace(noisier, element=max(self.element, other.element))


@np.errstate(all="ignore")
def worst_elements(
    reference: np.ndarray, candidate: np.ndarray, row_rms: np.ndarray, channel_rms: np.ndarray, *, first_row: int = 0
) -> WorstElements:
    """Measure the elements of some rows by |d| / (max(row RMS, channel RMS) + |r|).

    One element can be far off where a massive row meets a massive channel; the noise of a whole row cannot.

    reference, candidate: the rows, as a matrix
    row_rms: of these rows
    first_row: the index of the first of them
    """
    ratio = _local(reference, candidate, np.maximum(row_rms[:, None], channel_rms[None, :]))
    if not ratio.size:
        return WorstElements()
    noise = np.sqrt(np.mean(ratio**2, axis=1))
    worst = int(np.argmax(noise))
    return WorstElements(float(ratio.max()), float(noise[worst]), first_row + worst)


@np.errstate(all="ignore")
def worst_local_element(
    reference: np.ndarray, candidate: np.ndarray, row_rms: np.ndarray, channel_rms: np.ndarray
) -> float:
    """The worst element of an operation on each element alone, which takes no noise from its row: against a tenth of
    the smaller RMS.
    """
    scale = 0.1 * np.minimum(row_rms[:, None], channel_rms[None, :])
    return float(np.max(_local(reference, candidate, scale), initial=0.0))


def _local(reference: np.ndarray, candidate: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Differences against the size of what is around, and their own; 0 for what is not finite."""
    r, d = as_rows(reference), as_rows(candidate) - as_rows(reference)
    ratio = np.abs(d) / (scale + np.abs(r))
    ratio[(d == 0) | ~np.isfinite(d)] = 0.0
    return np.asarray(ratio)


def _nan_as_zero(values: np.ndarray) -> np.ndarray:
    """As np.nan_to_num, which looks for infinities, too, and takes five times as long for the few numbers there are."""
    return np.where(np.isnan(values), 0.0, values)


def median(values: np.ndarray) -> float:
    """As np.median, which takes four times as long for the few numbers there are."""
    return _middle(np.sort(values))


def _middle(ordered: np.ndarray) -> float:
    if not ordered.size:
        return 0.0
    low, high, last = ordered[(ordered.size - 1) // 2], ordered[ordered.size // 2], ordered[-1]  # NaN come last
    return float(last if np.isnan(last) else (low + high) / 2)


def _consensus(estimates: tuple[float, ...]) -> float:
    """The least of some estimates that all point one way; 0 where they do not."""
    one_way = all(estimate > 0 for estimate in estimates) or all(estimate < 0 for estimate in estimates)
    return min(estimates, key=abs) if one_way and all(map(isfinite, estimates)) else 0.0


def _scale(total: LineSums, rows: LineSums, channels: LineSums) -> tuple[float, float, float]:
    """The gain that whole, rows and channels agree on by their medians and by their quartiles, and the largest."""
    n, mean = total.count[0], total.r[0] / total.count[0]
    variance = total.rr[0] - n * mean**2
    slope = float((total.rd[0] - mean * total.d[0]) / variance) if variance > 1e-12 * total.rr[0] else 0.0
    gains = [np.sort(lines.gains) for lines in (rows, channels) if lines.gains.size]
    own = max(abs(slope), *(abs(_quartile(gain, share)) for gain in gains for share in (0.25, 0.75)))
    return *_agreed(slope, gains), own


def _shift(total: LineSums, *tables: LineSums) -> tuple[float, float]:
    size = float(np.sqrt(total.rr[0] / total.count[0]))
    whole = float(total.d[0] / total.count[0]) / size
    shifts = []
    for lines in tables:
        used = lines.sizes > _LEAST_SIZE * size
        shifts.append(np.sort(lines.d[used] / lines.count[used] / lines.sizes[used]))
    return _agreed(whole, shifts)


def _agreed(whole: float, lines: list[np.ndarray]) -> tuple[float, float]:
    """Return what the whole agrees on with the middle lines of each kind, and with three quarters of them."""
    middle = _consensus((whole, *map(_middle, lines)))
    sure = _consensus((whole, *(_quartile(ordered, 0.25 if middle > 0 else 0.75) for ordered in lines)))
    return middle, sure if sure * middle > 0 else 0.0


def _quartile(ordered: np.ndarray, share: float) -> float:
    return float(ordered[int(share * (ordered.size - 1))]) if ordered.size else 0.0


def _floor(lines: LineSums, *, sparse: bool) -> float:
    """The least size that a line counts as having; a few massive values must not make all others look empty."""
    if sparse:
        return _EMPTY * lines.size
    typical = median(lines.sizes)
    return _EMPTY * (min(lines.size, _MASSIVE * typical) if typical > 0 else lines.size)


def _worst_row(rows: LineSums, *, sparse: bool) -> tuple[float, int]:
    """Rows of which a mask leaves only a few elements are left to the figure of elements."""
    floor = _floor(rows, sparse=sparse)
    errors = np.sqrt(rows.dd / np.maximum(rows.count, 1)) / np.maximum(rows.sizes, floor) * _beside_one(rows, floor)
    errors[rows.count < max(LEAST_LINES, _MASK_SHARE * float(rows.count.max(initial=0)))] = 0.0
    worst = int(np.argmax(errors))
    return float(errors[worst]), worst


def _worst_channel(channels: LineSums, *, sparse: bool) -> tuple[float, int]:
    floor = _floor(channels, sparse=sparse)
    gains = np.abs(channels.rd) / (channels.rr + floor**2 * channels.count) * _beside_one(channels, floor)
    worst = int(np.argmax(_nan_as_zero(gains)))
    return float(gains[worst]), worst


def _beside_one(lines: LineSums, floor: float) -> np.ndarray:
    """How much of a line's error is left without its largest element, and without that much of its values.

    A massive value, or the one pixel that a ReLU lets through, errs alone; what is lost is lost with its values.
    """
    one = lines.max_d**2
    left = np.maximum(lines.rr - one, floor**2 * lines.count) / lines.rr
    share = np.sqrt(np.maximum(lines.dd - one, 0.0) / lines.dd / left)
    return np.where(
        (lines.count < _FEW) | (lines.rr == 0) & (lines.dd > one), 1.0, np.minimum(_nan_as_zero(share), 1.0)
    )


def _active(lines: LineSums) -> np.ndarray:
    """Return the effective number of elements of each line; a channel after a ReLU may be nonzero in few rows."""
    if (lines.r < 0).any():
        return np.asarray(np.maximum(lines.count - 1, 1))
    return np.asarray(np.clip(lines.r**2 / lines.rr, 1, lines.count))


def _odd_channel(channels: LineSums, rows: int, eps: float) -> tuple[float, int, float]:
    """One channel's gain against those of all others and against the uncertainty of its own."""
    if rows < _FEW_ROWS or len(channels) < LEAST_LINES:
        return 0.0, 0, 0.0
    used = np.flatnonzero(channels.sizes > _LEAST_SIZE * channels.size)
    if len(used) < LEAST_LINES:
        return 0.0, 0, 0.0
    lines = channels.where(used)
    gains = lines.rd / lines.rr
    middle = median(gains)
    spread = 1.48 * median(np.abs(gains - middle))
    noise = np.sqrt(lines.dd / lines.rr)
    unsure = np.maximum(np.sqrt(np.maximum(noise**2 - gains**2, 0.0)), median(noise)) / np.sqrt(_active(lines))
    # noise that channels take from each other is of one size in all, and a larger share of small ones
    shared = 1.48 * median(np.abs(gains - middle) * lines.sizes) / lines.sizes
    odd = np.abs(gains - middle) / (np.maximum(spread, shared) + 2 * unsure + 0.1 * eps)
    worst = int(np.argmax(odd))
    return float(odd[worst]), int(used[worst]), float(gains[worst] - middle) / eps
