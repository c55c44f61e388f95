"""Robust estimates of the relation of two vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_SAMPLE = 1 << 14
_ROUNDS = 3
_OUTLIER = 6.0
_TO_DEVIATION = 1.4826


@dataclass(frozen=True, slots=True)
class Line:
    """`candidate = factor * reference + offset`, and how exactly the two are known."""

    factor: float
    offset: float
    factor_error: float
    offset_error: float


@np.errstate(all="ignore")
def factor_between(reference: np.ndarray, candidate: np.ndarray) -> tuple[complex, float] | None:
    """The factor from one row of finite numbers to the other, and how exactly it is known; None for zeros."""
    r, c = _sampled(reference, candidate)
    sizes = np.abs(r)
    large = sizes >= np.median(sizes[sizes > 0]) if (sizes > 0).any() else sizes > 0
    if not large.any():
        return None
    ratios = c[large] / r[large]
    factor = complex(np.median(ratios.real), np.median(ratios.imag) if ratios.dtype.kind == "c" else 0.0)
    kept = np.ones(r.size, bool)
    for _ in range(_ROUNDS):
        left = np.abs(c - factor * r)
        kept = left <= max(_OUTLIER * _TO_DEVIATION * float(np.median(left)), 1e-12 * float(np.abs(c).max()))
        power = float(np.sum(np.abs(r[kept]) ** 2))
        if not power:
            return None
        factor = complex(np.sum(np.conj(r[kept]) * c[kept]) / power)
    noise = float(np.sum(np.abs(c[kept] - factor * r[kept]) ** 2)) / max(int(kept.sum()) - 1, 1)
    error = (noise / power) ** 0.5
    return factor, error + 4e-16 * abs(factor)


@np.errstate(all="ignore")
def line_between(reference: np.ndarray, candidate: np.ndarray) -> Line | None:
    """The line through the points of two rows of real finite numbers; None where the reference does not vary."""
    r, c = _sampled(reference, candidate)
    kept = np.ones(r.size, bool)
    found: Line | None = None
    for _ in range(_ROUNDS):
        if int(kept.sum()) < 3:
            return found
        x, y = r[kept], c[kept]
        centre, level = float(x.mean()), float(y.mean())
        power = float(np.sum((x - centre) ** 2))
        if power <= 1e-24 * float(np.sum(x * x)):
            return None
        factor = float(np.sum((x - centre) * (y - level)) / power)
        offset = level - factor * centre
        left = np.abs(c - factor * r - offset)
        noise = float(np.sum(left[kept] ** 2)) / (x.size - 2) if x.size > 2 else 0.0
        exactness = (noise / power) ** 0.5 + 4e-16 * abs(factor)
        found = Line(factor, offset, exactness, (noise / x.size) ** 0.5 + exactness * abs(centre))
        kept = left <= max(_OUTLIER * _TO_DEVIATION * float(np.median(left)), 1e-12 * float(np.abs(c).max()))
    return found


def _sampled(reference: np.ndarray, candidate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    finite = np.isfinite(reference) & np.isfinite(candidate)
    r, c = reference[finite], candidate[finite]
    if r.size <= _SAMPLE:
        return r, c
    spread = (np.arange(_SAMPLE) * r.size // _SAMPLE + np.arange(_SAMPLE) * 7919 % (r.size // _SAMPLE)).clip(
        max=r.size - 1
    )
    return r[spread], c[spread]
