"""A pair measured: one scan of both sides, and a second look only where elements lie outside the tolerance."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from firstdiff.errors import UsageError
from firstdiff.measure.accumulator import Accumulator, NonFinite
from firstdiff.measure.allowed import EXACT, Allowed
from firstdiff.measure.envelope import Envelope
from firstdiff.measure.metrics import metrics_of
from firstdiff.measure.passes import Engine, Passes, engine_for
from firstdiff.measure.plan import SMALL, PairPlan, plan_of
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


@dataclass(frozen=True, slots=True)
class PairScan:
    """What one pass over a pair gives, whatever tolerance it is held to.

    reference, candidate: statistics of each side
    nonfinite: what the NaN and infinities of both sides have to do with each other
    envelope: judges tolerances
    """

    reference: Statistics
    candidate: Statistics
    nonfinite: NonFinite
    envelope: Envelope
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
            gathered = replace(gathered, sketch=details.sketch or gathered.sketch)
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
    engine: `numpy` works everywhere; `numba` is several times faster, and compiles once for each pair of types
    threads: how many windows `numba` works on at a time; the result is the same for any number
    progress: called with the number of elements done so far

    >>> scan = scan_pair(ArraySource(ref), ArraySource(cand))
    >>> scan.reference.std, scan.envelope.max_abs
    (1.02, 2.1e-06)
    """
    if reference.size != candidate.size:
        raise UsageError(
            f"a pair of {reference.size:,} and {candidate.size:,} elements cannot be measured; align the shapes first"
        )
    passes = Passes(reference, candidate, engine_for(engine, reference.size), threads)
    plan = plan_of(reference.dtype, candidate.dtype, sampled=reference.size > SMALL, full=full)
    gathered = passes.measure(plan, progress)
    return PairScan(
        gathered.reference.statistics(),
        gathered.candidate.statistics(),
        gathered.nonfinite,
        Envelope.of(gathered.finite, max(gathered.max_abs, 0.0), gathered.hull, gathered.cells),
        passes,
        plan,
        gathered,
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
