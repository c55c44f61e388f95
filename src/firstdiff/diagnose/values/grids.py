"""Find a grid that values lie on, coarser than their dtype: that of a narrower float, or even steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from firstdiff import dtypes
from firstdiff.ops.rounding import rounded

_SAMPLE = 4096
_FEWEST = 16
_LEVELS = {"int8": 127, "int4": 7}
_NEAR = 5e-3


def share_on_grid(values: np.ndarray, dtype: str) -> float:
    """The share of the values, other than 0, that a type holds exactly; 0 where there are too few to tell."""
    told = _sampled(values)
    told = told[told != 0]
    if told.size < _FEWEST or np.unique(told).size < _FEWEST // 2:
        return 0.0
    return float(np.mean(rounded(told, dtype) == told))


def spacing_at(values: np.ndarray, dtype: str) -> np.ndarray:
    """The distance of neighbouring numbers of a type near each value."""
    with np.errstate(all="ignore"):
        power = np.exp2(np.floor(np.log2(np.where(values != 0, np.abs(values), 1.0))))
    return np.asarray(np.where(values != 0, power, 0.0) * dtypes.eps_of(dtypes.from_name(dtype)))


@dataclass(frozen=True, slots=True)
class Steps:
    """Even steps that all values lie on; `axis` where each index of it has its own."""

    name: str
    size: np.ndarray
    axis: int | None


def steps_of(values: np.ndarray) -> Steps | None:
    """The even grid of 8 or 4 bits that real values lie on; None if there is none."""
    for name, top in _LEVELS.items():
        size = _step(_sampled(values)[None, :], top)
        if size is not None:
            return Steps(name, size.reshape((1,) * values.ndim), None)
    for axis in reversed(range(values.ndim)):
        if values.shape[axis] < 2 or values.size // values.shape[axis] < _FEWEST:
            continue
        rows = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)[:, :_SAMPLE]
        for name, top in _LEVELS.items():
            size = _step(rows, top)
            if size is not None:
                shape = [1] * values.ndim
                shape[axis] = size.size
                return Steps(name, size.reshape(shape), axis)
    return None


@np.errstate(all="ignore")
def _step(rows: np.ndarray, top: int) -> np.ndarray | None:
    """The step of each row if all rows lie on a grid that reaches `top` steps to a side, or twice that in all."""
    if rows.shape[1] < _FEWEST or not np.isfinite(rows).all():
        return None
    span = np.ptp(rows, axis=1, keepdims=True)
    for step in (np.abs(rows).max(axis=1, keepdims=True) / top, span / (2 * top + 1), span / (2 * top)):
        counts = rows / np.where(step > 0, step, 1.0)
        even = np.abs(counts - np.round(counts)) <= _NEAR
        varied = [np.unique(np.round(row)).size > 3 for row in counts[:4]]
        if even.all() and all(varied):
            return np.asarray(step[:, 0])
    return None


def _sampled(values: np.ndarray) -> np.ndarray:
    flat = values[np.isfinite(values)].reshape(-1)
    return np.asarray(flat if flat.size <= _SAMPLE else flat[np.arange(_SAMPLE) * flat.size // _SAMPLE])
