"""The second pass, for pairs that do not match: how many elements lie outside, and the sketch of all of them."""

from __future__ import annotations

import numpy as np

from firstdiff.measure.allowed import Allowed
from firstdiff.measure.block import Block, block_of
from firstdiff.measure.passes import Details
from firstdiff.measure.plan import BLOCK, PairPlan
from firstdiff.measure.promote import to_numbers
from firstdiff.measure.sketch import Sketch

_BEYOND_UINT64 = 2.0**64


def detail_window(reference: np.ndarray, candidate: np.ndarray, plan: PairPlan, allowed: Allowed) -> Details:
    """Of the elements finite on both sides: how many have |c - r| > atol + rtol * |r|, and the sketch if wanted."""
    outside, sketch = 0, Sketch()
    with np.errstate(all="ignore"):
        for first in range(0, reference.size, BLOCK):
            r, c = reference[first : first + BLOCK], candidate[first : first + BLOCK]
            block = block_of(plan.domain, r, c)
            if not np.isfinite(block.difference.max()):
                both = np.isfinite(to_numbers(r)) & np.isfinite(to_numbers(c))
                block = block_of(plan.domain, r[both], c[both])
            outside += _count(block, allowed)
            if plan.full:
                sketch.add(block.size, block.difference, plan.grid)
    return Details(outside, sketch if plan.full else None)


def _count(block: Block, allowed: Allowed) -> int:
    bounds = block.size * allowed.rtol
    bounds += allowed.atol
    outside = block.difference > bounds if block.whole is None else _whole_outside(block.whole, bounds)
    return int(np.count_nonzero(outside))


def _whole_outside(whole: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Whole numbers against float64 bounds without rounding either: what exceeds the floor exceeds the bound."""
    if whole.dtype == object:
        return np.array([d > bound for d, bound in zip(whole.tolist(), bounds.tolist(), strict=True)])
    reachable = bounds < _BEYOND_UINT64
    floor = np.where(reachable, bounds, 0.0).astype(np.uint64)
    return reachable & (whole > floor)
