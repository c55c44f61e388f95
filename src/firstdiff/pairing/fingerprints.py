"""Fingerprints of tensors: a few values, sampled so that another layout gives the same ones, and their misfit.

`in_order` holds values at places counted in C order, which flattening and singleton axes leave alone. `by_axis` counts
with the longest axis outermost, so that permuting axes of different lengths leaves it alone. A profile averages some
waves over all values, which no layout changes at all; only small tensors have one. A misfit of 0 is equal, 1 and above
is unrelated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Literal, NamedTuple, final

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.measure.statistics import fillers
from firstdiff.pairing.strategy import Side, grouped
from firstdiff.trace import Source, Trace

Sampling = Literal["in_order", "by_axis"]
Array = np.ndarray

POINTS = 64
WHOLE = 1 << 16  # the largest tensor that is read as a whole
WAVES = 0.15 * 1.25 ** np.arange(16)  # cycles by the mean magnitude of the values
_VIEWED_BYTES = 1 << 22  # beyond this, values are read one by one
FEWEST_DISTINCT = 16  # masks, one-hot rows and zeros look alike everywhere
_FEWEST_IDS, _IDS_SHARE = 4, 4  # of whole numbers one in four suffices: ids of a short text, but no mask
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
        by_size: dict[tuple[int, int], list[tuple[int, Array]]] = {}
        for place in places:
            self._points[place, sampling] = None
            found = self._read(place, lambda source: _points(source, sampling))
            if found is not None:
                by_size.setdefault((len(found), self._fewest(place)), []).append((place, found))
        for (_, fewest), taken in by_size.items():
            rows = _tidied(np.stack([found for _, found in taken]))
            for (place, _), row, telling in zip(taken, rows, are_telling(rows, fewest), strict=True):
                if telling:
                    self._points[place, sampling] = row

    def _fewest(self, place: int) -> int:
        """Return how many distinct values a tensor needs to be known by them."""
        source = self._trace.tensors[place].source
        if source is None or source.dtype.kind not in "iu":
            return FEWEST_DISTINCT
        return min(max(source.size // _IDS_SHARE, _FEWEST_IDS), FEWEST_DISTINCT)

    def _read(self, place: int, read: Callable[[Source], Array | None]) -> Array | None:
        source = self._trace.tensors[place].source
        if source is None or source.size < self._fewest(place):
            return None
        try:
            found = read(source)
        except ReadError:
            return None  # measuring will say what is wrong with it
        return None if found is None else _as_float(found)


def are_telling(rows: Array, fewest: int = FEWEST_DISTINCT) -> Array:
    """Mark the rows that can identify a tensor: enough distinct values, further apart than rounding."""
    distinct = 1 + np.count_nonzero(np.diff(np.sort(rows, axis=1), axis=1), axis=1)
    return np.asarray((distinct >= fewest) & (rows.std(axis=1) > 1e-6 * np.abs(rows).max(axis=1)))


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
    """With zeros for what is not finite and for a mask's fillers, and no square that is not finite."""
    finite = np.clip(np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0), -_LARGEST, _LARGEST)
    return without_fillers(finite)


def without_fillers(rows: Array) -> Array:
    """Return rows with zeros for what a mask adds or puts in, such as -1e9: it hides what the scores are."""
    return np.where(fillers(rows), 0.0, rows)


EQUAL = 0.05  # the same values, with the noise of a deep model in bf16
RELATED = 0.3  # the same tensor gone wrong a little, or its neighbour in the residual stream
NOISE = 0.004  # what rounding to bf16 does; smaller misfits cannot be told apart
_FAR_BELOW_CHANCE = 0.1  # profiles nearer than this share of what chance gives are those of the same values
_MOST_FITS = 16  # a tensor that fits more others than this fits none of them in particular
_MOST_LIKELY = 4 * _MOST_FITS
_MOST_BY_PROFILE = 1 << 22
_ROWS = 512
_TINY = 1e-300
_SAMPLINGS: tuple[Sampling, ...] = ("in_order", "by_axis")

Places = Sequence[int]
Rows = tuple[np.ndarray, list[int]]


class Fit(NamedTuple):
    reference: int
    candidate: int
    misfit: float


def misfit(reference: Fingerprints, place: int, candidate: Fingerprints, other: int) -> float:
    """Return the misfit of two tensors of equal size, the least over all samplings."""
    found = [fit.misfit for fit in fits(reference, [place], candidate, [other], within=np.inf)]
    return min(found, default=1.0)


def fits(
    reference: Fingerprints, places: Places, candidate: Fingerprints, others: Places, *, within: float = RELATED
) -> list[Fit]:
    """Return the tensors of two groups of equal size that fit by any sampling, each two with the least misfit."""
    best: dict[tuple[int, int], float] = {}
    plain = all(reference.is_plain(place) for place in places) and all(candidate.is_plain(place) for place in others)
    for sampling in _SAMPLINGS[:1] if plain else _SAMPLINGS:
        for fit in _fits_of_points(reference.points(places, sampling), candidate.points(others, sampling), within):
            two = fit.reference, fit.candidate
            best[two] = min(fit.misfit, best.get(two, np.inf))
    return [Fit(*two, found) for two, found in best.items()]


def fits_of_profiles(reference: Fingerprints, places: Places, candidate: Fingerprints, others: Places) -> list[Fit]:
    """The same by averages over all values alone, for small tensors in layouts that hide every place.

    Of thousands by thousands, some would be near by chance.
    """
    if len(places) * len(others) > _MOST_BY_PROFILE:
        return []
    known = [(other, found) for other in others if (found := candidate.profile(other))]
    if not known:
        return []
    means = np.stack([found.means for _, found in known])
    chance = np.stack([found.chance for _, found in known])
    magnitudes = np.array([found.magnitude for _, found in known])
    result: list[Fit] = []
    for place in places:
        if mine := reference.profile(place):
            away = np.sqrt(np.mean((means - mine.means) ** 2 / (chance + mine.chance + _TINY), axis=1))
            # waves are as long as the values are large: twice the values have the same profile
            alike = np.abs(magnitudes - mine.magnitude) <= EQUAL * mine.magnitude
            near = np.nonzero((away <= _FAR_BELOW_CHANCE) & alike)[0].tolist()
            result += [Fit(place, known[column][0], float(away[column]) * EQUAL) for column in near]
    return _specific(result)


def _fits_of_points(reference: Rows, candidate: Rows, within: float) -> list[Fit]:
    """Two rows that are near enough are at least so much correlated, which is quickly told of thousands."""
    (rows, places), (columns, others) = reference, candidate
    if not places or not others:
        return []
    correlated = np.float32(np.sqrt(1 - within**2) - 1e-4 if within < 1 else -np.inf)
    unit_rows, unit_columns = _unit(rows), _unit(columns)
    result: list[Fit] = []
    for first in range(0, len(rows), _ROWS):
        likely = unit_rows[first : first + _ROWS] @ unit_columns.T >= correlated
        likely[np.count_nonzero(likely, axis=1) > _MOST_LIKELY] = False
        near, column = np.nonzero(likely)
        away = _distances(rows[first + near], columns[column])
        found = zip((first + near).tolist(), column.tolist(), away.tolist(), strict=True)
        result += [Fit(places[row], others[at], value) for row, at, value in found if value < within]
    return _specific(result)


def _unit(rows: np.ndarray) -> np.ndarray:
    centred = rows - rows.mean(axis=1, keepdims=True)
    return np.asarray(centred / np.linalg.norm(centred, axis=1, keepdims=True), dtype=np.float32)


def _distances(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Root mean square of each difference, in units of the larger deviation."""
    scale = np.maximum(rows.std(axis=1), columns.std(axis=1))
    return np.asarray(np.sqrt(((rows - columns) ** 2).mean(axis=1)) / scale)


def _specific(found: list[Fit]) -> list[Fit]:
    """Without the tensors that fit too many others."""
    reference, candidate = Counter(fit.reference for fit in found), Counter(fit.candidate for fit in found)
    return [fit for fit in found if reference[fit.reference] <= _MOST_FITS and candidate[fit.candidate] <= _MOST_FITS]


_SMALL = 1 << 12  # elements: tensors that tell too little for a fingerprint are read whole up to here


def first_copies(side: Side, prints: Fingerprints, places: Iterable[int]) -> dict[int, int]:
    """Return for each tensor the first of those places, in order, that holds the same values in the same order."""
    readable = [place for place in sorted(places) if side.tensor(place).source is not None]
    first: dict[int, int] = {}
    for size, group in grouped(readable, (side.sizes[place] for place in readable)).items():
        known: dict[bytes, int] = {}
        rows, telling = prints.points(group, "in_order")
        values = {place: row.tobytes() for place, row in zip(telling, rows, strict=True)}
        for place in group:
            digest = values.get(place)
            if digest is None and size is not None and size <= _SMALL:
                digest = _whole(side, place)
            first[place] = place if digest is None else known.setdefault(digest, place)
    return first


def _whole(side: Side, place: int) -> bytes | None:
    try:
        values = side.tensor(place).values()
        found = np.asarray(values.window(0, values.size))
        return found.astype(np.complex128 if found.dtype.kind == "c" else np.float64).tobytes()
    except (ReadError, TypeError, ValueError):
        return None
