"""The dtypes of tensors: their names, numpy dtypes and eps."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import ml_dtypes
import numpy as np

Kind = Literal["float", "int", "bool", "complex"]

_NATIVE = (
    "float64 float32 float16 complex128 complex64 bool int64 int32 int16 int8 uint64 uint32 uint16 uint8"
).split()
_EXTENDED = (
    "bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e4m3 float8_e3m4 "
    "float8_e4m3b11fnuz float8_e8m0fnu"
).split()

BY_NAME: dict[str, np.dtype] = {name: np.dtype(name) for name in _NATIVE}
BY_NAME |= {name: np.dtype(getattr(ml_dtypes, name)) for name in _EXTENDED}


def known(name: str) -> bool:
    return name in BY_NAME


def from_name(name: str) -> np.dtype:
    """The numpy dtype of a name such as `bfloat16`; KeyError for one firstdiff does not know."""
    return BY_NAME[name]


@cache
def name_of(dtype: np.dtype) -> str:
    """`float32` for any byte order; the name of numpy for types firstdiff has no word for."""
    return dtype.name


@cache
def is_supported(dtype: np.dtype) -> bool:
    return dtype.name in BY_NAME


@cache
def is_extended(dtype: np.dtype) -> bool:
    """True for bf16 and the fp8 family, which numpy alone does not know."""
    return dtype.name in _EXTENDED


@cache
def kind_of(dtype: np.dtype) -> Kind:
    if dtype.name in _EXTENDED or dtype.kind == "f":
        return "float"
    if dtype.kind in "iu":
        return "int"
    return "bool" if dtype.kind == "b" else "complex"


@cache
def bits_of(dtype: np.dtype) -> np.dtype:
    """The plain type that carries a dtype inside a .npy file: raw bits for what numpy alone cannot name."""
    return np.dtype(f"<u{dtype.itemsize}") if is_extended(dtype) else dtype


@cache
def eps_of(dtype: np.dtype) -> float:
    """Spacing of the numbers around 1; 0 for exact types."""
    kind = kind_of(dtype)
    if kind == "complex":
        return float(np.finfo(dtype).eps)
    if kind == "float":
        return float(ml_dtypes.finfo(dtype).eps)
    return 0.0


@np.errstate(invalid="ignore")  # some NaN complain when they are cast
def doubles(values: Any) -> np.ndarray:
    """As float64, or complex128 where they are complex; those that are already come back as they are."""
    array = np.asarray(values)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64, copy=False)
