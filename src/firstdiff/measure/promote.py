"""Raw elements as numbers to compute with: float64, or float32 where that loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Literal

import numpy as np

from firstdiff import dtypes

Domain = Literal["real", "wide", "complex"]
Promotion = Callable[[np.ndarray], np.ndarray]

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


def to_float32(values: np.ndarray) -> np.ndarray:
    """Exact for the types that fit."""
    return _to_float32(values.dtype)(values)


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
def _to_float32(dtype: np.dtype) -> Promotion:
    if dtype.name == "bfloat16":
        return _from_bfloat16
    if dtype.name == "float16":
        return _from_half
    if dtypes.is_extended(dtype):
        table = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
        return lambda values: table[values.view(np.uint8)]
    return lambda values: values.astype(np.float32, copy=False)


@cache
def _to_float64(dtype: np.dtype) -> Promotion:
    if fits_float32(dtype) and dtypes.kind_of(dtype) == "float":
        return lambda values: to_float32(values).astype(np.float64)
    return lambda values: values.astype(np.float64, copy=False)


def _from_bfloat16(values: np.ndarray) -> np.ndarray:
    return np.left_shift(values.view(np.uint16), 16, dtype=np.uint32).view(np.float32)


def _from_half(values: np.ndarray) -> np.ndarray:
    """Shift the bits into a float32's places and mend the exponent by a product: three times numpy's own speed."""
    bits = np.left_shift(values.view(np.int16), 13, dtype=np.int32)
    bits &= _HALF_PLACES
    wide = bits.view(np.float32)
    wide *= _HALF_SCALE
    if wide.size and max(wide.max(), -wide.min()) >= _HALF_LIMIT:
        return values.astype(np.float32)  # Inf and NaN come out as numbers that no float16 holds
    return wide
