"""How many elements lie outside a tolerance: the second pass, for pairs that do not match."""

from __future__ import annotations

import numpy as np

from firstdiff.measure.allowed import Allowed
from firstdiff.measure.block import block_of
from firstdiff.measure.plan import BLOCK, PairPlan
from firstdiff.measure.promote import to_numbers

_BEYOND_UINT64 = 2.0**64


def count_window(reference: np.ndarray, candidate: np.ndarray, plan: PairPlan, allowed: Allowed) -> int:
    """Elements with |c - r| > atol + rtol * |r|, those that are not finite on both sides left out."""
    with np.errstate(all="ignore"):
        return sum(
            _count(reference[first : first + BLOCK], candidate[first : first + BLOCK], plan, allowed)
            for first in range(0, reference.size, BLOCK)
        )


def _count(reference: np.ndarray, candidate: np.ndarray, plan: PairPlan, allowed: Allowed) -> int:
    block = block_of(plan.domain, reference, candidate)
    bounds = block.size * allowed.rtol
    bounds += allowed.atol
    if block.whole is not None:
        outside = _whole_outside(block.whole, bounds)
    else:
        outside = block.difference > bounds
        if not np.isfinite(block.difference.max()):
            outside &= np.isfinite(to_numbers(reference)) & np.isfinite(to_numbers(candidate))
    return int(np.count_nonzero(outside))


def _whole_outside(whole: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Whole numbers against float64 bounds without rounding either: what exceeds the floor exceeds the bound."""
    if whole.dtype == object:
        return np.array([d > bound for d, bound in zip(whole.tolist(), bounds.tolist(), strict=True)])
    reachable = bounds < _BEYOND_UINT64
    floor = np.where(reachable, bounds, 0.0).astype(np.uint64)
    return reachable & (whole > floor)
