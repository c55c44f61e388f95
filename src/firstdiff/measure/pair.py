"""A pair measured: one pass over both sides, and a second one only where elements lie outside the tolerance."""

from __future__ import annotations

from dataclasses import dataclass, replace

from firstdiff.errors import UsageError
from firstdiff.measure.accumulator import Accumulator, NonFinite
from firstdiff.measure.allowed import EXACT, Allowed, Tolerance
from firstdiff.measure.envelope import Envelope
from firstdiff.measure.metrics import metrics_of
from firstdiff.measure.passes import Engine, Passes, engine_for
from firstdiff.measure.plan import SMALL, plan_of
from firstdiff.measure.threads import Progress
from firstdiff.schema import Metrics, Statistics
from firstdiff.trace import Source


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


def measure_pair(
    reference: Source,
    candidate: Source,
    tolerance: Allowed | Tolerance = EXACT,
    *,
    equal_nan: bool = False,
    full: bool = False,
    engine: Engine = "numpy",
    threads: int = 1,
    progress: Progress | None = None,
) -> PairMeasurement:
    """Measure the difference of two tensors with as many elements, taken in C order.

    tolerance: what is allowed, or a function that tells it from the reference's statistics
    equal_nan: NaN on both sides at one place is no mismatch
    full: take every metric from all elements, also for a large pair that matches
    engine: `numpy` works everywhere; `numba` is several times faster, and compiles once for each pair of types
    threads: how many windows `numba` works on at a time; the result is the same for any number
    progress: called with the number of elements done so far

    >>> measured = measure_pair(ArraySource(ref), ArraySource(cand), Allowed(atol=1e-5, rtol=1.3e-6))
    >>> measured.metrics.mismatched, measured.metrics.max_abs
    (0, 2.1e-06)
    """
    if reference.size != candidate.size:
        raise UsageError(
            f"a pair of {reference.size:,} and {candidate.size:,} elements cannot be measured; align the shapes first"
        )
    passes = Passes(reference, candidate, engine_for(engine, reference.size), threads)
    plan = plan_of(reference.dtype, candidate.dtype, sampled=reference.size > SMALL, full=full)
    gathered = passes.measure(plan, progress)
    statistics = gathered.reference.statistics()
    allowed = _checked(tolerance(statistics) if callable(tolerance) else tolerance)
    mismatched = gathered.nonfinite.conflicting + (0 if equal_nan else gathered.nonfinite.both_nan)
    envelope = _envelope(gathered)
    if not envelope.admits(*allowed) or (mismatched and plan.sampled and not plan.full):
        details = passes.detail(replace(plan, full=plan.sampled and not plan.full), allowed)
        mismatched += details.outside
        gathered.sketch = details.sketch or gathered.sketch
    return PairMeasurement(
        statistics,
        gathered.candidate.statistics(),
        metrics_of(gathered, plan, reference, candidate, mismatched),
        allowed,
        gathered.nonfinite,
        envelope,
    )


def _envelope(gathered: Accumulator) -> Envelope:
    return Envelope.of(gathered.finite, max(gathered.max_abs, 0.0), gathered.hull, gathered.cells)


def _checked(allowed: Allowed) -> Allowed:
    if not all(bound >= 0.0 for bound in allowed):
        raise UsageError(
            f"a tolerance of atol={allowed[0]}, rtol={allowed[1]} makes no sense; give numbers of 0 or more"
        )
    return Allowed(*allowed)
