"""Recognise probabilities, and the axis along which they add up to 1."""

from __future__ import annotations

import numpy as np

_NEAR = 0.02
_MOST = 0.98


@np.errstate(all="ignore")
def sums_to_one(values: np.ndarray) -> list[int]:
    """The axes, longer than 1, along which nearly all sums are 1; none for values below 0."""
    if values.dtype.kind != "f" or not values.size or np.nanmin(values) < -1e-6 or np.nanmax(values) > 1 + _NEAR:
        return []
    found = []
    for axis in range(values.ndim):
        if values.shape[axis] > 1:
            near = np.abs(values.sum(axis=axis) - 1.0) < _NEAR
            if np.mean(near) >= _MOST:
                found.append(axis)
    return found
