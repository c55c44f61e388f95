"""Figures of tensors whose features lie along the second axis, as convolutions have them, rather than the last.

Records do not always tell which axis it is. What is lost, or noise everywhere, shows whichever axis holds the features;
rows of a picture's few columns do not make tokens, and a feature that a ReLU has all but switched off is no lost token.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from firstdiff import dtypes
from firstdiff.judge.noise_figures import NoiseFigures, noise_figures, worst_elements
from firstdiff.judge.noise_rule import limits_for
from firstdiff.judge.noise_sums import NoiseSums
from firstdiff.trace import ArraySource, Source

_LEAST_AXES = 4  # of a tensor that may be pictures
_MOST_ELEMENTS = 1 << 24  # that are read at once for another view
# of the spread of sizes along the second axis, below which the last axis holds no features: columns of pictures in nine
# trained networks stay below 0.55 in most tensors, keys and channels of heads in three transformers above 0.65
_ALIKE = 0.6


def without_trailing_ones(
    sources: tuple[Source, Source], counted: np.ndarray | None
) -> tuple[tuple[Source, Source], np.ndarray | None]:
    """Return a pair without axes of length 1 behind its features, as global pooling leaves them."""
    shape = sources[0].shape
    length = next((place + 1 for place in range(len(shape) - 1, 0, -1) if shape[place] > 1), 1)
    if len(shape) == length or sources[0].size > _MOST_ELEMENTS:
        return sources, counted
    shorter = shape[:length]
    reference, candidate = (ArraySource(source.view().reshape(shorter)) for source in sources)
    return (reference, candidate), None if counted is None else counted.reshape(shorter)


def maps_of(shape: tuple[int, ...]) -> int:
    """Return how many planes a tensor consists of that may be pictures; 0 for one that has other axes."""
    return prod(shape[:-2]) if len(shape) >= _LEAST_AXES else 0


def least_of_both_views(
    figures: NoiseFigures, sources: tuple[Source, Source], counted: np.ndarray | None, dtype: np.dtype
) -> NoiseFigures:
    """Return the figures of pictures without what shows only if columns were features.

    sources: a pair; its values are read again only where the figures are near a limit
    counted: False in places that a mask hides
    """
    shape = sources[0].shape
    if len(shape) < _LEAST_AXES or not figures.maps or sources[0].size > _MOST_ELEMENTS:
        return figures
    if any(dtypes.kind_of(source.dtype) == "complex" for source in sources) or not _is_suspicious(figures, dtype):
        return figures
    reference, candidate = (np.moveaxis(source.view(), 1, -1) for source in sources)
    if not _are_pictures(reference):
        return figures
    sums = NoiseSums.of(reference, candidate, None if counted is None else np.moveaxis(counted, 1, -1))
    eps = dtypes.eps_of(dtype)
    other = noise_figures(sums, eps, sparse=True)
    if other is None:
        return figures
    worst = worst_elements(reference, candidate, sums.rows.sizes, sums.channels.sizes)
    other = other.with_worst(worst, eps)
    return replace(
        figures,
        level=min(figures.level, other.level),
        typical=min(figures.typical, other.typical),
        row=min(figures.row, max(other.row, other.channel)),
        element=min(figures.element or 0.0, other.element or 0.0),
        row_noise=min(figures.row_noise or 0.0, other.row_noise or 0.0),
    )


@np.errstate(all="ignore")
def _are_pictures(moved: np.ndarray) -> bool:
    """True if columns are alike and features are not; `moved` has the features last and columns before them."""
    squares = np.square(np.where(np.isfinite(moved), moved, 0.0), dtype=np.float64)
    columns, features = (
        _spread(np.sqrt(squares.mean(axis=tuple(axis for axis in range(moved.ndim) if axis != kept))))
        for kept in (moved.ndim - 2, moved.ndim - 1)
    )
    return moved.shape[-1] == 1 or columns < _ALIKE * features


def _spread(sizes: np.ndarray) -> float:
    used = sizes[sizes > 0]  # padding is empty
    return float(used.std() / used.mean()) if used.size else 0.0


def _is_suspicious(figures: NoiseFigures, dtype: np.dtype) -> bool:
    """True if a part may be beyond its limit where there is no noise upstream."""
    limits = limits_for(dtype)
    return (
        figures.row > limits.row * limits.least
        or figures.level > limits.level * limits.least
        or (figures.element or 0.0) > limits.element * limits.least
        or (figures.row_noise or 0.0) > limits.row_noise * limits.least
    )
