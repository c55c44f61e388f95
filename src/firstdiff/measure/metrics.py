"""From what was gathered of a pair to the figures that are shown."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from firstdiff.measure.accumulator import Accumulator
from firstdiff.measure.plan import PairPlan
from firstdiff.measure.promote import scalar
from firstdiff.schema import Metrics
from firstdiff.trace import Source

SAMPLED = ("abs_percentiles", "max_ulp", "mean_rel")
_NEAR = 0.5  # a cosine from which on 1 - cosine is better taken from the sine


def metrics_of(gathered: Accumulator, plan: PairPlan, reference: Source, candidate: Source, mismatched: int) -> Metrics:
    """Every metric of `docs/metrics.md`."""
    distance = one_minus_cosine(gathered)
    mse = _ratio(gathered.dd, gathered.finite)
    sketch = gathered.sketch
    relative = gathered.finite > gathered.hull.zeros
    return Metrics(
        elements=gathered.elements,
        mismatched=mismatched,
        max_abs=_largest(gathered, plan),
        mean_abs=_ratio(gathered.sum_abs, gathered.finite),
        max_rel=gathered.hull.steepest if relative else None,
        mean_rel=_ratio(sketch.relative_sum, sketch.relative_count),
        zero_reference=gathered.hull.zeros,
        mse=mse,
        rmse=None if mse is None else math.sqrt(mse),
        rel_l2=_relative(math.sqrt(gathered.dd), math.sqrt(gathered.rr)) if gathered.finite else None,
        cosine=None if distance is None else 1.0 - distance,
        one_minus_cosine=distance,
        nmse=None if mse is None else _relative(mse, gathered.reference.variance),
        sqnr_db=_decibels(gathered.rr, gathered.dd) if gathered.finite else None,
        max_ulp=sketch.max_ulp if plan.grid is not None and sketch.relative_count else None,
        abs_percentiles=sketch.histogram.percentiles(gathered.max_abs),
        **_place(gathered, reference, candidate),
        nan_reference=gathered.reference.nan,
        nan_candidate=gathered.candidate.nan,
        inf_reference=gathered.reference.inf,
        inf_candidate=gathered.candidate.inf,
        sampled=() if sketch.count == gathered.finite else SAMPLED,
    )


def one_minus_cosine(gathered: Accumulator) -> float | None:
    """From the rest of the difference, so that it keeps its digits where 1 - dot / (|r| |c|) has lost them all."""
    sides = (gathered.reference, gathered.candidate)
    if not gathered.finite or any(side.nan or side.inf for side in sides):
        return None
    if gathered.rr == 0.0 or gathered.cc == 0.0:
        return 0.0 if gathered.rr == gathered.cc else 1.0
    cosine = gathered.rc / (math.sqrt(gathered.rr) * math.sqrt(gathered.cc))
    if math.isnan(cosine) or math.isinf(gathered.rr) or math.isinf(gathered.cc):
        return None
    return gathered.rest / gathered.cc / (1.0 + cosine) if cosine > _NEAR else min(1.0 - cosine, 2.0)


def _largest(gathered: Accumulator, plan: PairPlan) -> float | None:
    if not gathered.finite:
        return None
    return int(gathered.max_abs) if plan.whole else gathered.max_abs


def _ratio(summed: float, count: int) -> float | None:
    return summed / count if count else None


def _relative(difference: float, scale: float) -> float | None:
    """0 where nothing differs, infinite where something differs from nothing, None where both are beyond float64."""
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
    if math.isinf(signal) or math.isinf(noise):
        return None if signal == noise else math.copysign(math.inf, signal - noise)
    return 10.0 * (math.log10(signal) - math.log10(noise))


def _place(gathered: Accumulator, reference: Source, candidate: Source) -> dict[str, Any]:
    """Where the largest difference is, and the two values there; nothing if nothing differs."""
    if gathered.max_abs <= 0:
        return {}
    at = gathered.argmax
    return {
        "argmax": tuple(int(i) for i in np.unravel_index(at, reference.shape)),
        "reference_at_max": scalar(reference.window(at, at + 1)),
        "candidate_at_max": scalar(candidate.window(at, at + 1)),
    }
