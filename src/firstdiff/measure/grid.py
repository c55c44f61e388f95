"""The spacing of float types, which ULPs are counted in."""

from __future__ import annotations

from typing import NamedTuple

import ml_dtypes
import numpy as np

from firstdiff import dtypes


class Grid(NamedTuple):
    """`eps` at 1, growing with the power of two, never finer than at `tiny`, the smallest normal number."""

    eps: float
    tiny: float


def coarser_grid(reference: np.dtype, candidate: np.dtype) -> Grid | None:
    """That of the coarser float type of a pair; None if neither side is a float."""
    grids = [_grid(dtype) for dtype in (reference, candidate) if dtypes.kind_of(dtype) in ("float", "complex")]
    return max(grids, default=None)


def _grid(dtype: np.dtype) -> Grid:
    limits = np.finfo(dtype) if dtypes.kind_of(dtype) == "complex" else ml_dtypes.finfo(dtype)
    return Grid(float(limits.eps), float(limits.smallest_normal))
