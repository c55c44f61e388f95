"""Reference definitions of every metric, slow and exact; the tests hold the fast paths to these."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from firstdiff import dtypes
from firstdiff.measure.numerics import coarser_grid, scalar
from firstdiff.measure.plan import EXACT, Allowed
from firstdiff.measure.sketch import PERCENTILES
from firstdiff.schema import Metrics, Statistics


def plain_statistics(values: np.ndarray) -> Statistics:
    """Of the finite elements; of the magnitude if they are complex."""
    numbers = _numbers(values, whole=dtypes.kind_of(values.dtype) in ("int", "bool"))
    nan, finite = _is_nan(numbers), _is_finite(numbers)
    kept = numbers[finite]
    inf = numbers.size - kept.size - int(nan.sum())
    if not kept.size:
        return Statistics(None, None, None, None, int(nan.sum()), inf)
    if kept.dtype.kind == "c":
        kept = np.abs(kept)
    mean = _sum(kept / kept.size)
    # equal numbers do not differ from their mean, even where that is rounded
    std = 0.0 if kept.min() == kept.max() else math.sqrt(_sum((kept - mean) ** 2) / kept.size)
    return Statistics(mean, std, kept.min(), kept.max(), int(nan.sum()), inf)


def plain_metrics(
    reference: np.ndarray, candidate: np.ndarray, allowed: Allowed = EXACT, *, equal_nan: bool = False
) -> Metrics:
    """Of two arrays of one shape; nothing is sampled."""
    whole = all(dtypes.kind_of(side.dtype) in ("int", "bool") for side in (reference, candidate))
    r_all, c_all = _numbers(reference, whole=whole), _numbers(candidate, whole=whole)
    both = _is_finite(r_all) & _is_finite(c_all)
    r, c = r_all[both], c_all[both]
    d, x = np.abs(c - r), np.abs(r)
    n, nonzero = d.size, x != 0
    relative = (d[nonzero] / x[nonzero]).astype(np.float64)
    mse = _sum(d * d) / n if n else None
    r_norm, d_norm = math.sqrt(_sum(x * x)), math.sqrt(_sum(d * d))
    variance = (plain_statistics(reference).std or 0.0) ** 2
    distance = _one_minus_cosine(r, c) if n and both.all() else None
    return Metrics(
        elements=both.size,
        mismatched=_mismatched(r_all, c_all, allowed, equal_nan),
        max_abs=d.max() if n else None,
        mean_abs=_sum(d) / n if n else None,
        max_rel=relative.max() if relative.size else None,
        mean_rel=_sum(relative) / relative.size if relative.size else None,
        zero_reference=n - relative.size,
        mse=mse,
        rmse=None if mse is None else math.sqrt(mse),
        rel_l2=_quotient(d_norm, r_norm) if n else None,
        cosine=None if distance is None else 1.0 - distance,
        one_minus_cosine=distance,
        nmse=None if mse is None else _quotient(mse, variance),
        sqnr_db=_decibels(r_norm, d_norm) if n else None,
        max_ulp=_max_ulp(reference.dtype, candidate.dtype, d[nonzero], x[nonzero]),
        abs_percentiles={str(p): np.sort(d)[max(-(-p * n // 100), 1) - 1] for p in PERCENTILES} if n else {},
        **_place(reference, candidate, d, both),
        nan_reference=int(_is_nan(r_all).sum()),
        nan_candidate=int(_is_nan(c_all).sum()),
        inf_reference=int((~_is_nan(r_all) & ~_is_finite(r_all)).sum()),
        inf_candidate=int((~_is_nan(c_all) & ~_is_finite(c_all)).sum()),
    )


def _numbers(values: np.ndarray, *, whole: bool) -> np.ndarray:
    """Flat; Python's own integers where exactness asks for them, else float64 or complex128."""
    if whole:
        return values.reshape(-1).astype(object) + 0  # adding 0 makes numbers of bools
    kind = np.complex128 if dtypes.kind_of(values.dtype) == "complex" else np.float64
    return values.reshape(-1).astype(kind)


def _is_nan(numbers: np.ndarray) -> np.ndarray:
    return np.zeros(numbers.shape, bool) if numbers.dtype == object else np.isnan(numbers)


def _is_finite(numbers: np.ndarray) -> np.ndarray:
    return np.ones(numbers.shape, bool) if numbers.dtype == object else np.isfinite(numbers)


def _sum(values: np.ndarray) -> float:
    """Rounded once."""
    numbers = values.astype(np.float64)
    if not np.isfinite(numbers).all():
        return math.inf
    try:
        return math.fsum(numbers)
    except OverflowError:
        return math.inf


def _mismatched(r: np.ndarray, c: np.ndarray, allowed: Allowed, equal_nan: bool) -> int:
    nan = _is_nan(r) & _is_nan(c)
    both = _is_finite(r) & _is_finite(c)
    bound = allowed.atol + allowed.rtol * np.abs(r).astype(np.float64)
    outside = [d > b for d, b in zip(np.abs(c - r)[both].tolist(), bound[both].tolist(), strict=True)]
    conflicts = ~both & ~nan & (r != c)
    return int(sum(outside)) + int(conflicts.sum()) + (0 if equal_nan else int(nan.sum()))


def _one_minus_cosine(r: np.ndarray, c: np.ndarray) -> float | None:
    """1 - <r, c> / (|r| |c|), from the part of c that is not along r where the two nearly agree."""
    pairs = "c" in r.dtype.kind + c.dtype.kind
    long_r, long_c = (_parts(side) if pairs else side.astype(np.longdouble) for side in (r, c))
    rr, cc, along = (long_r**2).sum(), (long_c**2).sum(), (long_r * long_c).sum()
    if rr == 0.0 or cc == 0.0:
        return 0.0 if rr == cc else 1.0
    cosine = along / (np.sqrt(rr) * np.sqrt(cc))
    if cosine > 0.5:
        rest = ((long_c - along / rr * long_r) ** 2).sum() / cc
        return float(rest / (1.0 + cosine))
    return None if np.isnan(cosine) else float(min(1.0 - cosine, 2.0))


def _parts(values: np.ndarray) -> np.ndarray:
    return np.stack([values.real, values.imag]).astype(np.longdouble)


def _quotient(difference: float, scale: float) -> float | None:
    if difference == 0.0:
        return 0.0
    if scale == 0.0:
        return math.inf
    return None if math.isinf(difference) and math.isinf(scale) else difference / scale


def _decibels(signal: float, noise: float) -> float | None:
    if noise == 0.0:
        return math.inf
    if signal == 0.0:
        return -math.inf
    if math.isinf(signal) and math.isinf(noise):
        return None
    return math.copysign(math.inf, signal - noise) if math.isinf(signal + noise) else 20 * math.log10(signal / noise)


def _max_ulp(reference: np.dtype, candidate: np.dtype, d: np.ndarray, x: np.ndarray) -> float | None:
    """|c - r| in units of the coarser type's spacing at r."""
    grid = coarser_grid(reference, candidate)
    if grid is None or not d.size:
        return None
    _, exponents = np.frexp(x)
    return float((d / np.maximum(np.ldexp(1.0, exponents - 1), grid.tiny) / grid.eps).max())


def _place(reference: np.ndarray, candidate: np.ndarray, d: np.ndarray, both: np.ndarray) -> dict[str, Any]:
    if not d.size or d.max() == 0:
        return {}
    at = tuple(int(i) for i in np.unravel_index(np.flatnonzero(both)[d.argmax()], reference.shape))
    return {
        "argmax": at,
        "reference_at_max": scalar(reference[at]),
        "candidate_at_max": scalar(candidate[at]),
    }
