"""Measure a pair: one scan of both sides, and a second pass only if elements lie outside the tolerance."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from firstdiff.errors import UsageError
from firstdiff.measure.accumulator import Accumulator, NonFinite
from firstdiff.measure.envelope import Envelope
from firstdiff.measure.numerics import scalar
from firstdiff.measure.passes import Engine, Passes, Progress, engine_for
from firstdiff.measure.plan import EXACT, SMALL, Allowed, PairPlan, plan_of
from firstdiff.measure.sums import PairSums, Sums, join_rows
from firstdiff.schema import Metrics, Statistics
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
    """Return the index of the largest difference and the two values there; empty if nothing differs."""
    if gathered.max_abs <= 0:
        return {}
    at = gathered.argmax
    values = gathered.at_max or [scalar(side.window(at, at + 1)) for side in (reference, candidate)]
    return {
        "argmax": _index_of(at, reference.shape),
        "reference_at_max": values[0],
        "candidate_at_max": values[1],
    }


def _index_of(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index = []
    for length in reversed(shape):
        flat, inside = divmod(flat, length)
        index.append(inside)
    return tuple(reversed(index))


@dataclass(frozen=True, slots=True)
class PairMeasurement:
    """Everything there is to know about a pair.

    allowed: the tolerance that `metrics.mismatched` was counted under
    nonfinite: what the NaN and infinities of both sides have to do with each other
    envelope: judges other tolerances later
    """

    reference: Statistics
    candidate: Statistics
    metrics: Metrics
    allowed: Allowed
    nonfinite: NonFinite
    envelope: Envelope


@dataclass(frozen=True, slots=True, eq=False)
class PairScan:
    """The result of one pass over a pair, from which it can be measured under any tolerance.

    reference, candidate: statistics of each side
    nonfinite: what the NaN and infinities of both sides have to do with each other
    envelope: judges tolerances
    sums: over the whole pair, its rows and its channels
    """

    reference: Statistics
    candidate: Statistics
    nonfinite: NonFinite
    envelope: Envelope
    sums: PairSums
    _passes: Passes = field(repr=False)
    _plan: PairPlan = field(repr=False)
    _gathered: Accumulator = field(repr=False)

    def measure(self, allowed: Allowed = EXACT, *, equal_nan: bool = False) -> PairMeasurement:
        """Work out every metric under a tolerance; the data are read again only where elements lie outside it.

        allowed: the tolerance that elements are held to
        equal_nan: NaN on both sides at one place is no mismatch

        >>> scan = scan_pair(ArraySource(ref), ArraySource(cand))
        >>> scan.measure(Allowed(atol=1e-3 * scan.reference.std, rtol=0.0)).metrics.mismatched
        0
        """
        allowed = _checked(allowed)
        plan, gathered = self._plan, self._gathered
        mismatched = self.nonfinite.conflicting + (0 if equal_nan else self.nonfinite.both_nan)
        if not self.envelope.admits(*allowed) or (mismatched and plan.sampled and not plan.full):
            details = self._passes.detail(replace(plan, full=plan.sampled and not plan.full), allowed)
            mismatched += details.outside
            if details.sketch is not None:
                gathered = replace(gathered, sketch=details.sketch)
        metrics = metrics_of(gathered, plan, self._passes.reference, self._passes.candidate, mismatched)
        return PairMeasurement(self.reference, self.candidate, metrics, allowed, self.nonfinite, self.envelope)


def scan_pair(
    reference: Source,
    candidate: Source,
    *,
    full: bool = False,
    engine: Engine = "auto",
    threads: int = 1,
    progress: Progress | None = None,
) -> PairScan:
    """Go once through two tensors with as many elements, taken in C order.

    full: take every metric from all elements, also for a large pair that matches
    engine: `auto` takes the compiled kernel wherever it was built and takes the types; `numpy` does without
    threads: how many stretches the kernel works on at a time; the result is the same for any number
    progress: called with the number of elements done so far

    >>> scan = scan_pair(ArraySource(ref), ArraySource(cand))
    >>> scan.reference.std, scan.envelope.max_abs
    (1.02, 2.1e-06)
    """
    if reference.size != candidate.size:
        raise UsageError(
            f"a pair of {reference.size:,} and {candidate.size:,} elements cannot be measured; align the shapes first"
        )
    sampled = reference.size > SMALL
    plan = plan_of(reference.shape, reference.dtype, candidate.dtype, sampled=sampled, full=full)
    passes = Passes(reference, candidate, engine_for(engine, plan), threads)
    gathered = passes.measure(plan, progress)
    return PairScan(
        gathered.reference.statistics(),
        gathered.candidate.statistics(),
        gathered.nonfinite,
        Envelope.of(gathered.finite, max(gathered.max_abs, 0.0), gathered.hull, gathered.cells),
        _sums_of(gathered, plan),
        passes,
        plan,
        gathered,
    )


def _sums_of(gathered: Accumulator, plan: PairPlan) -> PairSums:
    rows, channels = join_rows(gathered.rows)
    return PairSums(
        Sums(
            gathered.finite, gathered.r, gathered.rr, gathered.d, gathered.dd, gathered.rd, max(gathered.max_abs, 0.0)
        ),
        rows,
        plan.rows.together,
        channels,
        plan.rows.channel_rows,
        gathered.reference.whole,
        gathered.candidate.whole,
    )


def measure_pair(
    reference: Source,
    candidate: Source,
    allowed: Allowed = EXACT,
    *,
    equal_nan: bool = False,
    full: bool = False,
    engine: Engine = "auto",
    threads: int = 1,
    progress: Progress | None = None,
) -> PairMeasurement:
    """Measure the difference of two tensors under a tolerance that is known beforehand; see `scan_pair`.

    >>> measured = measure_pair(ArraySource(ref), ArraySource(cand), Allowed(atol=1e-5, rtol=1.3e-6))
    >>> measured.metrics.mismatched, measured.metrics.max_abs
    (0, 2.1e-06)
    """
    scan = scan_pair(reference, candidate, full=full, engine=engine, threads=threads, progress=progress)
    return scan.measure(allowed, equal_nan=equal_nan)


def _checked(allowed: Allowed) -> Allowed:
    if not all(bound >= 0.0 for bound in allowed):
        raise UsageError(
            f"a tolerance of atol={allowed[0]}, rtol={allowed[1]} makes no sense; give numbers of 0 or more"
        )
    return Allowed(*allowed)
