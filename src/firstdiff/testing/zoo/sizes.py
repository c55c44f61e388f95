"""Measure the size of a difference, independently of the comparison under test."""

from __future__ import annotations

from math import inf

import numpy as np

_STEPS = 256  # of float32: what the default tolerance allows
_FILLER = 1e30  # what masks put in place of minus infinity: no part of how large values are


def excess(reference: np.ndarray, candidate: np.ndarray) -> float:
    """The greatest difference in units of the default tolerance of float32; infinite where any difference counts.

    Axes of length 1 may be left out. Where one side is longer, what both have is judged: the rest is coverage.
    """
    right, given = reference, candidate
    if right.ndim != given.ndim:
        right, given = np.squeeze(right), np.squeeze(given)
    if right.ndim != given.ndim:
        return inf
    common = tuple(slice(min(ours, theirs)) for ours, theirs in zip(right.shape, given.shape, strict=True))
    right, given = right[common], given[common]
    if not right.size:
        return inf if reference.size or candidate.size else 0.0
    if right.dtype.kind not in "fc":
        return 0.0 if np.array_equal(right, given) else inf
    return _in_tolerances(right.astype(np.complex128), given.astype(np.complex128))


def _in_tolerances(right: np.ndarray, given: np.ndarray) -> float:
    finite = np.isfinite(right)
    if not np.array_equal(finite, np.isfinite(given)):
        return inf
    right, given = right[finite], given[finite]
    if not right.size:
        return 0.0
    shown = right[np.abs(right) < _FILLER]
    spread = float(np.std(shown)) if shown.size else 0.0
    allowed = _STEPS * float(np.finfo(np.float32).eps) * (spread + np.abs(right))
    difference = np.abs(given - right)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.max(np.where(difference > 0, difference / allowed, 0.0)))
