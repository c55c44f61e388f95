"""The compiled kernel: plain C in `kernel/`, built with the package and called through ctypes."""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, Structure, c_double, c_int64, c_uint32, c_void_p
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "kernel"
NAME = {"win32": "firstdiff_kernel.dll", "darwin": "firstdiff_kernel.dylib"}.get(sys.platform, "firstdiff_kernel.so")
VERSION = 3  # of the structs below; another library is not called

CORNERS = 64
CELL_SLOTS = 16384
MOST_CELLS = 12288
CELL_OCTAVES = 0x3FFFFF
CHANNEL_ROOM = 4
TYPES = {"float32": 0, "float64": 1, "bfloat16": 2, "float16": 3}


class Side(Structure):
    """Mirrors `Side` of firstdiff.h; so do the others."""

    _fields_ = (
        *((name, c_int64) for name in ("count", "nan", "inf", "whole")),
        *((name, c_double) for name in ("mean", "spread", "low", "high")),
    )


class Hull(Structure):
    _fields_ = (
        ("count", c_int64),
        *((name, c_double) for name in ("at_zero", "steepest", "slack")),
        *((name, c_double * (CORNERS + 2)) for name in ("x", "d")),
    )


class Sketch(Structure):
    _fields_ = (
        *((name, c_int64) for name in ("count", "relative", "low_bin", "high_bin")),
        *((name, c_double) for name in ("relative_sum", "most_powers")),
    )


class Cell(Structure):
    _fields_ = (("key", c_uint32), ("points", c_uint32))


class Plan(Structure):
    _fields_ = (
        *((name, c_int64) for name in ("reference_type", "candidate_type", "row", "group", "first_group")),
        *((name, c_int64) for name in ("channel_rows", "sampled", "full")),
        ("smallest_normal", c_double),
        *((name, c_void_p) for name in ("rows", "channels", "bins", "cells", "used")),
    )


class Figures(Structure):
    _fields_ = (
        ("reference", Side),
        ("candidate", Side),
        ("hull", Hull),
        ("sketch", Sketch),
        *((name, c_int64) for name in ("elements", "finite", "zeros", "argmax", "both_nan", "equal_inf")),
        *((name, c_int64) for name in ("conflicting", "first_conflict", "first_both_nan")),
        *((name, c_int64) for name in ("cell_points", "cell_count", "pause")),
        *((name, c_double) for name in ("r", "rr", "cc", "d", "dd", "rd", "rc", "abs", "rest")),
        *((name, c_double) for name in ("max_abs", "reference_at_max", "candidate_at_max")),
    )


@dataclass(frozen=True, slots=True)
class Library:
    """The functions of the variant that suits this processor."""

    variant: str
    begin: Any
    scan: Any
    count_outside: Any


@cache
def library(variant: str | None = None) -> Library | None:
    """The kernel; None where it was not built, or not for this version or this machine.

    variant: `baseline` or `avx2`; else the one that suits this processor
    """
    try:
        loaded = ctypes.CDLL(str(FOLDER / NAME))
        version, size = loaded.firstdiff_kernel_version, loaded.firstdiff_kernel_figures
    except (OSError, AttributeError):
        return None
    size.restype = c_int64
    if version() != VERSION or size() != ctypes.sizeof(Figures):
        return None
    variant = variant or ("avx2" if loaded.supports_avx2() else "baseline")
    begin, scan, outside = (getattr(loaded, f"{name}_{variant}") for name in ("begin", "scan", "count_outside"))
    begin.argtypes, begin.restype = [POINTER(Figures)], None
    arrays = [POINTER(Plan), POINTER(Figures), c_void_p, c_void_p]
    scan.argtypes, scan.restype = [*arrays, c_int64, c_int64], None
    outside.argtypes, outside.restype = [*arrays, c_int64, c_double, c_double], c_int64
    return Library(variant, begin, scan, outside)


def describe_library() -> str:
    """Say which kernel measures, for people."""
    found = library()
    if found is None:
        return "no compiled kernel: numpy measures, large tensors many times slower; add a C compiler and install again"
    return f"compiled kernel, {found.variant}"
