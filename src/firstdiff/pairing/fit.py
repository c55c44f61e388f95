"""Misfit of the values of two tensors, whatever their layouts: 0 is equal, 1 and above is unrelated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from firstdiff.pairing.fingerprint import Fingerprints, Sampling

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


def misfit(ours: Fingerprints, place: int, theirs: Fingerprints, other: int) -> float:
    """Return the misfit of two tensors of equal size, the least over all samplings."""
    found = [fit.misfit for fit in fits(ours, [place], theirs, [other], within=np.inf)]
    return min(found, default=1.0)


def fits(
    ours: Fingerprints, places: Places, theirs: Fingerprints, others: Places, *, within: float = RELATED
) -> list[Fit]:
    """Return the tensors of two groups of equal size that fit by any sampling, each two with the least misfit."""
    best: dict[tuple[int, int], float] = {}
    plain = all(ours.is_plain(place) for place in places) and all(theirs.is_plain(place) for place in others)
    for sampling in _SAMPLINGS[:1] if plain else _SAMPLINGS:
        for fit in _fits_of_points(ours.points(places, sampling), theirs.points(others, sampling), within):
            two = fit.reference, fit.candidate
            best[two] = min(fit.misfit, best.get(two, np.inf))
    return [Fit(*two, found) for two, found in best.items()]


def fits_of_profiles(ours: Fingerprints, places: Places, theirs: Fingerprints, others: Places) -> list[Fit]:
    """The same by averages over all values alone, for small tensors in layouts that hide every place.

    Of thousands by thousands, some would be near by chance.
    """
    if len(places) * len(others) > _MOST_BY_PROFILE:
        return []
    known = [(other, found) for other in others if (found := theirs.profile(other))]
    if not known:
        return []
    means = np.stack([found.means for _, found in known])
    chance = np.stack([found.chance for _, found in known])
    magnitudes = np.array([found.magnitude for _, found in known])
    result: list[Fit] = []
    for place in places:
        if mine := ours.profile(place):
            away = np.sqrt(np.mean((means - mine.means) ** 2 / (chance + mine.chance + _TINY), axis=1))
            # waves are as long as the values are large: twice the values have the same profile
            alike = np.abs(magnitudes - mine.magnitude) <= EQUAL * mine.magnitude
            near = np.nonzero((away <= _FAR_BELOW_CHANCE) & alike)[0].tolist()
            result += [Fit(place, known[column][0], float(away[column]) * EQUAL) for column in near]
    return _specific(result)


def _fits_of_points(ours: Rows, theirs: Rows, within: float) -> list[Fit]:
    """Two rows that are near enough are at least so much correlated, which is quickly told of thousands."""
    (rows, places), (columns, others) = ours, theirs
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
    ours, theirs = Counter(fit.reference for fit in found), Counter(fit.candidate for fit in found)
    return [fit for fit in found if ours[fit.reference] <= _MOST_FITS and theirs[fit.candidate] <= _MOST_FITS]
