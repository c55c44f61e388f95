"""Sums of float32 and float64 vectors whose bits do not depend on how many threads the BLAS library may use.

Rows are summed in the type of the vector, their sums in float64: float64 rows are as long as a BLAS library leaves
to one thread, float32 rows so short that non-negative terms keep six digits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_ROW = {np.dtype(np.float32): 1024, np.dtype(np.float64): 8192}
_ONES = {dtype: np.ones(length, dtype) for dtype, length in _ROW.items()}


def dot(left: np.ndarray, right: np.ndarray) -> float:
    """The inner product of two vectors of one type."""
    row = _ROW[left.dtype]
    whole = left.size // row * row
    rest = _short(left[whole:], right[whole:]) if whole < left.size else 0.0
    if not whole:
        return rest
    return _rows(left[:whole].reshape(-1, row), right[:whole].reshape(-1, row)) + rest


def dots(*pairs: tuple[np.ndarray, np.ndarray | None]) -> list[float]:
    """Inner products of vectors of one length and type, and sums of those that have no partner."""
    first = pairs[0][0]
    row = _ROW[first.dtype]
    whole = first.size // row * row
    products = np.empty((len(pairs), whole // row), first.dtype)
    for (left, right), found in zip(pairs, products, strict=True):
        others = _ONES[first.dtype][None] if right is None else right[:whole].reshape(-1, row)
        _row_products(left[:whole].reshape(-1, row), others, out=found)
    sums: list[float] = np.add.reduce(products, axis=1, dtype=np.float64).tolist()
    if whole < first.size:
        rests = (
            dot(left[whole:], right[whole:]) if right is not None else total(left[whole:]) for left, right in pairs
        )
        return [summed + rest for summed, rest in zip(sums, rests, strict=True)]
    return sums


def total(values: np.ndarray) -> float:
    """The sum of a vector."""
    if values.dtype == np.float64:
        return float(np.add.reduce(values))
    row = _ROW[values.dtype]
    whole = values.size // row * row
    return _rows(values[:whole].reshape(-1, row), _ONES[values.dtype][None]) + _short(values[whole:], None)


def _rows(left: np.ndarray, right: np.ndarray) -> float:
    products = _row_products(left, right, out=np.empty(left.shape[0], left.dtype))
    return float(np.add.reduce(products, axis=None, dtype=np.float64))


def _matmul_rows(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> np.ndarray:
    np.matmul(left[:, None, :], right[:, :, None], out=out[:, None, None])
    return out


_row_products: Callable[..., np.ndarray] = getattr(np, "vecdot", _matmul_rows)  # not in numpy 1


def _short(left: np.ndarray, right: np.ndarray | None) -> float:
    if right is None:
        return float(np.add.reduce(left, dtype=np.float64))
    return float(np.dot(left.astype(np.float64, copy=False), right.astype(np.float64, copy=False)))
