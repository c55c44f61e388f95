"""Residual of a computed tensor against a recorded one, in eps of the recorded dtype."""

from __future__ import annotations

from math import inf, isnan
from typing import Any

import ml_dtypes
import numpy as np

from firstdiff import dtypes
from firstdiff.dtypes import doubles
from firstdiff.ops.arrays import rounded
from firstdiff.ops.plan import Plan

# A single operation on recorded inputs against its float64 value. Measured on matrix products of 4,096, convolutions,
# norms with a large mean, attention and whole MLPs: float32 reaches 25 steps, half precision 0.9, and 2.2 in an MLP,
# whose parts are rounded too.
FITS_WIDE = 128.0
FITS_HALF = 6.0
FITS_BYTE = 2.0
# times what rounding at each step leaves over: kernels hold some of it in more digits, and others compute their
# activations with fewer
OF_STEPS = 8.0
# kernels add a fraction to 0.5 and round that sum, so that results near 0 are right to an eps of 1, not of themselves;
# two of them may be off in opposite directions
_AROUND_HALF = ("sigmoid", "hardsigmoid")


@np.errstate(all="ignore")
def residual(expected: np.ndarray, actual: np.ndarray, *, dtype: str | None = None) -> float:
    """Return the greatest `|actual - expected| / (std(expected) + |expected|)`, in eps of the recorded type.

    0 is a perfect fit; 0.5 is what rounding the result alone leaves. NaN fits NaN, an infinity fits itself, and an
    infinity that the recorded type overflowed to fits the finite value beyond its range. What fits nowhere, or has
    another shape, is infinitely far. Whole numbers and booleans fit exactly or not at all.

    >>> residual(np.float32([1.0, 2.0]), np.array([1.0, 2.0 + 2.0**-22]))
    0.8

    expected: as recorded, in its own type
    actual: as computed
    dtype: the type the values had before they were stored in a finer one
    """
    if expected.shape != np.shape(actual):
        return inf
    kind = recorded_type(expected, dtype)
    eps = dtypes.eps_of(kind)
    recorded, computed = doubles(expected), doubles(actual)
    fitting = (recorded == computed) | _alike_beyond_range(recorded, computed, kind)
    if kind != expected.dtype:  # the finer type may have the smaller range, as float16 has beside bfloat16
        fitting |= _alike_beyond_range(recorded, computed, expected.dtype)
    if bool(fitting.all()):
        return 0.0
    if eps == 0:
        return inf
    distance = np.where(fitting, 0.0, np.abs(computed - recorded) / _scale(recorded, kind))
    worst = float(np.max(distance)) / eps
    return inf if isnan(worst) else worst


def recorded_type(values: np.ndarray, dtype_was: object = None) -> np.dtype:
    """Return the coarser of the type values are stored in and the one they had before, if that is a known one."""
    if not isinstance(dtype_was, str) or not dtypes.known(dtype_was):
        return values.dtype
    return max(values.dtype, dtypes.from_name(dtype_was), key=dtypes.eps_of)


def within_half_steps(op: str, recorded: np.ndarray, computed: np.ndarray) -> np.ndarray:
    """Return recorded values, with computed ones where the kernels of an operation are no more accurate."""
    if op.lower() not in _AROUND_HALF or recorded.shape != computed.shape:
        return recorded
    step = 2 * dtypes.eps_of(recorded.dtype if recorded.dtype == np.float64 else np.dtype(np.float32))
    return np.where(np.abs(recorded - computed) <= step, computed.astype(recorded.dtype), recorded)


def fits(found: float, dtype: np.dtype) -> bool:
    """True if rounding and the order of summation explain a residual."""
    return found <= fit_limit(dtype)


def fit_limit(dtype: np.dtype) -> float:
    """Return the largest residual that still fits, by the recorded type."""
    if dtypes.eps_of(dtype) == 0:
        return 0.0
    widths = {1: FITS_BYTE, 2: FITS_HALF}
    return widths.get(dtype.itemsize, FITS_WIDE)


def limit_of_steps(plan: Plan, slot: str, computed: np.ndarray, dtype: np.dtype) -> float:
    """Return the largest residual that fits an operation which rounds at each of its steps; 0 for any other."""
    held = held_as_it_goes(plan, slot, dtype)
    return 0.0 if held is None else OF_STEPS * residual(held.astype(dtype), computed, dtype=dtype.name)


def held_as_it_goes(plan: Plan, slot: str, dtype: np.dtype) -> np.ndarray | None:
    """Return what an operation gives that keeps everything in a type between its steps; None for one of one step."""
    if "held_in" not in plan.settings or dtypes.kind_of(dtype) != "float":
        return None
    return plan.changed(held_in=dtype.name).run().get(slot)


def _alike_beyond_range(recorded: np.ndarray, computed: np.ndarray, dtype: np.dtype) -> Any:
    """Mark equal NaN, and values that overflow in the recorded dtype."""
    strange = ~np.isfinite(recorded)
    if dtypes.kind_of(dtype) == "float" and strange.any():
        held = rounded(computed, dtype.name)
        return strange & ((held == recorded) | (np.isnan(held) & np.isnan(recorded)))
    return np.isnan(recorded) & np.isnan(computed)


def _scale(recorded: np.ndarray, dtype: np.dtype) -> Any:
    """Return the scale of relative errors; at least the smallest normal number, below which digits are lost."""
    finite = recorded[np.isfinite(recorded)]
    top = float(np.max(np.abs(finite), initial=0.0))
    spread = top * float(np.std(finite / top)) if top else 0.0  # squares of huge values would overflow
    limits = np.finfo(dtype) if dtype.kind in "fc" else ml_dtypes.finfo(dtype)
    return spread + np.abs(recorded) + float(limits.smallest_normal)
