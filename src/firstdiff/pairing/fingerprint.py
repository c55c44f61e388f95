"""Fingerprints of tensors: a few values, sampled so that another layout gives the same ones.

`in_order` holds values at places counted in C order, which flattening and singleton axes leave alone. `by_axis` counts
with the longest axis outermost, so that permuting axes of different lengths leaves it alone. A profile averages some
waves over all values, which no layout changes at all; only small tensors have one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Literal, final

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.trace import Source, Trace

Sampling = Literal["in_order", "by_axis"]
Array = np.ndarray

POINTS = 64
WHOLE = 1 << 16  # the largest tensor that is read as a whole
WAVES = 0.15 * 1.25 ** np.arange(16)  # cycles by the mean magnitude of the values
_VIEWED_BYTES = 1 << 22  # beyond this, values are read one by one
FEWEST_DISTINCT = 16  # masks, one-hot rows and zeros look alike everywhere
_LARGEST = 1e100
_GOLDEN = 0.6180339887498949
_PHASES = np.arange(len(WAVES))[:, None] * _GOLDEN


@dataclass(frozen=True, slots=True)
class Profile:
    """The mean of each wave over all values, the square of how far chance moves it, and the values' mean magnitude."""

    means: Array
    chance: Array
    magnitude: float


@final
class Fingerprints:
    """The fingerprints of one trace, each made when it is first asked for; a tensor that tells nothing has none."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._points: dict[tuple[int, Sampling], Array | None] = {}
        self._profiles: dict[int, Profile | None] = {}

    def points(self, places: Sequence[int], sampling: Sampling) -> tuple[Array, list[int]]:
        """One row of POINTS values for each of the places that has them, in a fixed order, and those places."""
        self._take([place for place in places if (place, sampling) not in self._points], sampling)
        known = [(place, points) for place in places if (points := self._points[place, sampling]) is not None]
        rows = np.stack([points for _, points in known]) if known else np.empty((0, 0))
        return rows, [place for place, _ in known]

    def profile(self, place: int) -> Profile | None:
        """The profile of a tensor that is read as a whole, of WHOLE elements at most."""
        if place not in self._profiles:
            values = self._read(place, lambda source: source.window(0, source.size) if source.size <= WHOLE else None)
            self._profiles[place] = None if values is None else _profile(_tidied(values[None])[0])
        return self._profiles[place]

    def is_plain(self, place: int) -> bool:
        """True if both samplings of a tensor are the same."""
        source = self._trace.tensors[place].source
        return source is None or _axes_by_length(source.shape) is None

    def _take(self, places: Sequence[int], sampling: Sampling) -> None:
        by_size: dict[int, list[tuple[int, Array]]] = {}
        for place in places:
            self._points[place, sampling] = None
            found = self._read(place, lambda source: _points(source, sampling))
            if found is not None:
                by_size.setdefault(len(found), []).append((place, found))
        for taken in by_size.values():
            rows = _tidied(np.stack([found for _, found in taken]))
            for (place, _), row, telling in zip(taken, rows, are_telling(rows), strict=True):
                if telling:
                    self._points[place, sampling] = row

    def _read(self, place: int, read: Callable[[Source], Array | None]) -> Array | None:
        source = self._trace.tensors[place].source
        if source is None or source.size < FEWEST_DISTINCT:
            return None
        try:
            found = read(source)
        except ReadError:
            return None  # measuring will say what is wrong with it
        return None if found is None else _as_float(found)


def are_telling(rows: Array) -> Array:
    """Mark the rows that can identify a tensor: enough distinct values, further apart than rounding."""
    distinct = 1 + np.count_nonzero(np.diff(np.sort(rows, axis=1), axis=1), axis=1)
    return np.asarray((distinct >= FEWEST_DISTINCT) & (rows.std(axis=1) > 1e-6 * np.abs(rows).max(axis=1)))


def _points(source: Source, sampling: Sampling) -> Array:
    index, places = _positions(source.shape, sampling)
    if source.nbytes <= _VIEWED_BYTES:
        return np.asarray(source.view()[index])
    return np.concatenate([source.window(place, place + 1) for place in places])


@lru_cache(maxsize=4096)  # thousands of tensors share a few shapes
def _positions(shape: tuple[int, ...], sampling: Sampling) -> tuple[tuple[Array, ...], tuple[int, ...]]:
    """Return the sampled positions, by axis and as flat indices: spread evenly, in step with no axis."""
    size = prod(shape)
    places = np.arange(size)
    if size > POINTS:
        places = ((np.arange(1, POINTS + 1) * _GOLDEN) % 1.0 * size).astype(np.int64)
    axes = _axes_by_length(shape) if sampling == "by_axis" else None
    if axes is not None:
        index = np.unravel_index(places, tuple(shape[axis] for axis in axes))
        places = np.ravel_multi_index([index[axes.index(axis)] for axis in range(len(shape))], shape)
    return np.unravel_index(places, shape), tuple(places.tolist())


def _axes_by_length(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes from the longest on; None where they stand so already, singletons apart."""
    axes = tuple(sorted(range(len(shape)), key=lambda axis: -shape[axis]))
    moved = [axis for axis in axes if shape[axis] > 1]
    return None if moved == sorted(moved) else axes


def _profile(values: Array) -> Profile | None:
    if len(values) < POINTS or not are_telling(values[None])[0]:
        return None
    magnitude = float(np.abs(values).mean())
    scale = 2.0 ** np.round(np.log2(magnitude))  # the same for values that rounding moved
    cycles = np.outer(WAVES / scale, values) + _PHASES
    cycles -= np.floor(cycles)
    waves = np.abs(cycles - 0.5)
    return Profile(waves.mean(axis=1), waves.var(axis=1) / len(values), magnitude)


def _as_float(values: Array) -> Array:
    if values.dtype.kind == "c":
        return np.asarray(values.real.astype(np.float64) + values.imag)
    return values.astype(np.float64)


def _tidied(rows: Array) -> Array:
    """With zeros for what is not finite, and no square that is not."""
    return np.asarray(np.clip(np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0), -_LARGEST, _LARGEST))
