"""Raw elements as numbers to compute with: float64, or float32 where that loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Literal

import numpy as np

from firstdiff import dtypes

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
