"""Numerical helpers: conversion to float, sums independent of the number of threads, the spacing of dtypes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Literal, NamedTuple

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


class _Rooms(threading.local):
    def __init__(self) -> None:
        self.by_name: dict[tuple[str, type[np.generic]], np.ndarray] = {}


_own = _Rooms()


def scratch(name: str, dtype: type[np.generic], size: int) -> np.ndarray:
    """Room for `size` elements, of any content; whoever asks for the same name and type next gets the same room."""
    room = _own.by_name.get((name, dtype))
    if room is None or room.size < size:
        room = _own.by_name[name, dtype] = np.empty(size, dtype)
    return room[:size]


Domain = Literal["real", "wide", "complex"]
Promotion = Callable[[np.ndarray], np.ndarray]
Conversion = Callable[[np.ndarray, np.ndarray], np.ndarray]

_WIDE = (np.dtype(np.int64), np.dtype(np.uint64))
_HALF_SCALE = np.float32(2.0**112)
_HALF_LIMIT = np.float32(65536.0)
_HALF_PLACES = np.int32(-0x70000001)


def domain_of(reference: np.dtype, candidate: np.dtype) -> Domain:
    """`wide` where both sides are whole numbers and float64 may not hold them, `complex` where either side is."""
    kinds = {dtypes.kind_of(reference), dtypes.kind_of(candidate)}
    if "complex" in kinds:
        return "complex"
    if kinds <= {"int", "bool"} and (reference in _WIDE or candidate in _WIDE):
        return "wide"
    return "real"


def fits_float32(dtype: np.dtype) -> bool:
    """True if every value of the type is a float32."""
    return dtype == np.float32 or dtype.itemsize < 3


def to_float32(values: np.ndarray, room: np.ndarray | None = None) -> np.ndarray:
    """Exact for the types that fit, and aligned; in `room`, an array of float32, if it is given and needed."""
    return _to_float32(values.dtype)(values, np.empty(values.shape, np.float32) if room is None else room)


def to_float64(values: np.ndarray) -> np.ndarray:
    """Exact for every real type but integers beyond 2^53, which round."""
    return _to_float64(values.dtype)(values)


def to_numbers(values: np.ndarray) -> np.ndarray:
    """As complex128 if they are complex, else as float64."""
    return values.astype(np.complex128, copy=False) if values.dtype.kind == "c" else to_float64(values)


def to_complex128(values: np.ndarray) -> np.ndarray:
    return to_numbers(values).astype(np.complex128, copy=False)


def scalar(values: np.ndarray) -> bool | int | float | complex:
    """The one element of an array as Python's own number."""
    number = values.reshape(()).item()
    return number if isinstance(number, bool | int | float | complex) else float(number)


@cache
def _to_float32(dtype: np.dtype) -> Conversion:
    if dtype.name == "bfloat16":
        return _from_bfloat16
    if dtype.name == "float16":
        return _from_half
    if dtypes.is_extended(dtype):
        table = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
        return lambda values, room: table.take(values.view(np.uint8), out=room, mode="clip")
    return _from_plain


@cache
def _to_float64(dtype: np.dtype) -> Promotion:
    if fits_float32(dtype) and dtypes.kind_of(dtype) == "float":
        return lambda values: to_float32(values).astype(np.float64)
    return lambda values: values.astype(np.float64, copy=False)


def _from_plain(values: np.ndarray, room: np.ndarray) -> np.ndarray:
    if values.dtype == np.float32 and values.flags.aligned:
        return values
    np.copyto(room, values)  # what is not aligned would be copied by every operation that follows
    return room


def _from_bfloat16(values: np.ndarray, room: np.ndarray) -> np.ndarray:
    bits = room.view(np.uint32)
    np.copyto(bits, values.view(np.uint16))
    np.left_shift(bits, 16, out=bits)
    return room


def _from_half(values: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Shift the bits into a float32's places and mend the exponent by a product: twice numpy's own speed."""
    bits = room.view(np.int32)
    np.copyto(bits, values.view(np.int16))
    np.left_shift(bits, 13, out=bits)
    np.bitwise_and(bits, _HALF_PLACES, out=bits)
    np.multiply(room, _HALF_SCALE, out=room)
    if room.size and max(room.max(), -room.min()) >= _HALF_LIMIT:
        np.copyto(room, values)  # Inf and NaN come out as numbers that no float16 holds
    return room


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
