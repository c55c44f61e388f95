"""The noise floor: differences of a tensor between runs that should agree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from firstdiff import dtypes

# How many times the floor a difference may be. Tried on GPTs of 12 layers in float32 and bf16, with other kernels,
# orders of summation and numbers of threads: healthy runs reach 1.7 times the floor in max_abs, 1.4 in channel_rms and
# 1.6 in channel_gain; a channel x1.03 in bf16 over 128 tokens reaches 2.0, 2.5 and 7.7.
MULTIPLES = {"max_abs": 4.0, "channel_rms": 2.0, "channel_gain": 3.0}

_BLOCK = 1 << 18  # elements compared at a time
_FEWEST_ROWS = 16  # a channel of fewer values says nothing that its largest one does not say
_FLAT = 0.01  # a channel weaker than a tenth of the tensor is measured against that tenth


@dataclass(frozen=True, slots=True)
class Figures:
    """Four numbers for a tensor, of differences or of values. A channel is an index of the last axis.

    max_abs: the largest element
    rms: the root mean square
    channel_rms: the root mean square of the channel where it is largest; None where channels are short
    channel_gain: how much the most rescaled channel is scaled, |<difference, values>| / <values, values>; None as above
    """

    max_abs: float
    rms: float
    channel_rms: float | None = None
    channel_gain: float | None = None

    def widened(self, other: Figures) -> Figures:
        """Return the larger of each figure of both."""
        return Figures(
            max(self.max_abs, other.max_abs),
            max(self.rms, other.rms),
            _larger(self.channel_rms, other.channel_rms),
            _larger(self.channel_gain, other.channel_gain),
        )


@dataclass(frozen=True, slots=True)
class Spread:
    """The difference between two runs of one tensor, and the values it is a difference of."""

    difference: Figures
    values: Figures
    eps: float

    @property
    def relative(self) -> float:
        """The difference as a fraction of the values."""
        if self.difference.rms == 0:
            return 0.0
        return self.difference.rms / self.values.rms if self.values.rms else math.inf

    def widened(self, other: Spread) -> Spread:
        return Spread(self.difference.widened(other.difference), self.values.widened(other.values), self.eps)

    def to_floor(self, how: list[str]) -> dict[str, Any]:
        """The `floor` of a line: the spread, but never less than rounding the values to their type can do."""
        half, values, found = self.eps / 2, self.values, self.difference
        figures = {"max_abs": max(found.max_abs, half * values.max_abs), "rms": max(found.rms, half * values.rms)}
        if found.channel_rms is not None and found.channel_gain is not None:
            figures["channel_rms"] = max(found.channel_rms, half * (values.channel_rms or 0))
            figures["channel_gain"] = max(found.channel_gain, half)
        return {**figures, "runs": len(how), "how": how}


def beyond_floor(difference: Figures, floor: Mapping[str, Any]) -> dict[str, float]:
    """The figures that exceed their multiple of a recorded floor, each with how many times the floor it is."""
    found: dict[str, float] = {}
    for name, multiple in MULTIPLES.items():
        value, allowed = getattr(difference, name), floor.get(name)
        if isinstance(allowed, int | float) and value is not None and value > multiple * allowed:
            found[name] = value / allowed if allowed else math.inf
    return found


def spread_between(reference: np.ndarray, other: np.ndarray) -> Spread | None:
    """The spread of two runs; None for types that are exact, or shapes that differ.

    Elements that are not finite in both runs, or at the end of the range of their type as masks are, are left out.
    """
    kind = dtypes.kind_of(reference.dtype)
    if kind in ("int", "bool") or reference.shape != other.shape:
        return None
    rows, others = _rows(reference), _rows(other)
    sums = _Sums(rows.shape[1])
    for block, other_block in zip(_blocks(rows), _blocks(others), strict=True):
        usable = _usable(block) & _usable(other_block)
        sums.add(*(np.where(usable, part.astype(np.float64), 0) for part in (block, other_block)))
    return Spread(sums.of_difference(), sums.of_values(), dtypes.eps_of(reference.dtype))


class _Sums:
    """Sums over rows, for each channel, of values, differences and their products."""

    def __init__(self, width: int) -> None:
        self._rows = 0
        self._squares, self._products, self._values = np.zeros(width), np.zeros(width), np.zeros(width)
        self._largest, self._largest_value = 0.0, 0.0

    def add(self, reference: np.ndarray, other: np.ndarray) -> None:
        difference = other - reference
        self._rows += len(reference)
        self._squares += np.square(difference).sum(0)
        self._products += (difference * reference).sum(0)
        self._values += np.square(reference).sum(0)
        self._largest = max(self._largest, float(np.abs(difference).max(initial=0)))
        self._largest_value = max(self._largest_value, float(np.abs(reference).max(initial=0)))

    def of_difference(self) -> Figures:
        return self._figures(self._largest, self._squares, self._products)

    def of_values(self) -> Figures:
        return self._figures(self._largest_value, self._values, self._values)

    def _figures(self, largest: float, squares: np.ndarray, products: np.ndarray) -> Figures:
        rms = math.sqrt(float(squares.sum()) / max(self._rows * len(squares), 1))
        if self._rows < _FEWEST_ROWS or len(squares) < 2:
            return Figures(largest, rms)
        scale = self._values + _FLAT * self._values.mean()
        gains = np.divide(np.abs(products), scale, out=np.zeros_like(scale), where=scale > 0)
        return Figures(largest, rms, math.sqrt(float(squares.max()) / self._rows), float(gains.max()))


def _rows(array: np.ndarray) -> np.ndarray:
    """Rows of channels; a vector is a single channel, and so are the parts of complex numbers."""
    if array.dtype.kind == "c":
        flat = np.ascontiguousarray(array).reshape(-1)
        return flat.view(flat.real.dtype).reshape(-1, 1)
    return array.reshape(-1, array.shape[-1]) if array.ndim > 1 and array.size else array.reshape(-1, 1)


def _usable(block: np.ndarray) -> np.ndarray:
    most = float(ml_dtypes.finfo(block.dtype).max) / 2
    return np.abs(block.astype(np.float64)) < most


def _blocks(rows: np.ndarray) -> list[np.ndarray]:
    step = max(_BLOCK // rows.shape[1], 1)
    return [rows[start : start + step] for start in range(0, len(rows), step)]


def _larger(one: float | None, other: float | None) -> float | None:
    known = [value for value in (one, other) if value is not None]
    return max(known) if known else None
