"""The engine that calls the compiled kernel: float16, bfloat16, float32 and float64 in any mix."""

from __future__ import annotations

import threading
from ctypes import byref
from typing import final

import numpy as np

from firstdiff.measure import library as c
from firstdiff.measure.accumulator import Accumulator, Moments, NonFinite
from firstdiff.measure.envelope import Cells
from firstdiff.measure.hull import Hull
from firstdiff.measure.passes import Details, EngineCalls
from firstdiff.measure.plan import Allowed, PairPlan
from firstdiff.measure.sketch import BINS, Histogram, Sketch
from firstdiff.measure.sums import FIGURES, RowPart


def supports(plan: PairPlan) -> bool:
    """True where the kernel was built, and takes both types."""
    return {plan.reference.name, plan.candidate.name} <= c.TYPES.keys() and c.library() is not None


def _library() -> c.Library:
    found = c.library()
    assert found is not None, "engines are chosen by `supports`"
    return found


@final
class Stretch:
    """Windows scanned one after the other."""

    def __init__(self, plan: PairPlan, start: int, stop: int) -> None:
        self._library = _library()
        self._plan = plan
        rows = plan.rows
        self._first, groups = rows.groups(start, stop)
        self._rows = np.zeros((groups, FIGURES))
        self._channels = np.zeros((FIGURES, rows.row + c.CHANNEL_ROOM)) if rows.channel_rows else None
        self._bins = _own.counts
        self._cells = np.zeros((c.CELL_SLOTS, 2), np.uint32)
        self._told = _plan_struct(plan, self._bins)
        self._told.rows, self._told.cells = _address(self._rows), _address(self._cells)
        self._told.first_group = self._first
        self._told.channels = None if self._channels is None else _address(self._channels)
        self._figures = c.Figures()
        self._library.begin(byref(self._figures))

    def add(self, reference: np.ndarray, candidate: np.ndarray, start: int) -> None:
        """Take in a window; `start` is the flat index of its first element."""
        r, d = np.ascontiguousarray(reference), np.ascontiguousarray(candidate)
        self._library.scan(byref(self._told), byref(self._figures), _address(r), _address(d), start, r.size)

    def close(self) -> Accumulator:
        """What all windows gave."""
        found = self._figures
        channels = None if self._channels is None else self._channels[:, : -c.CHANNEL_ROOM]
        return Accumulator(
            reference=_moments(found.reference),
            candidate=_moments(found.candidate),
            elements=found.elements,
            finite=found.finite,
            sum_abs=found.abs,
            r=found.r,
            d=found.d,
            rd=found.rd,
            rr=found.rr,
            cc=found.cc,
            dd=found.dd,
            rc=found.rc,
            rest=found.rest,
            max_abs=found.max_abs,
            argmax=found.argmax,
            nonfinite=NonFinite(
                found.both_nan, found.equal_inf, found.conflicting, found.first_conflict, found.first_both_nan
            ),
            hull=_hull(found),
            sketch=_sketch(found.sketch, self._bins, self._plan),
            cells=_cells(found, self._cells),
            rows=[RowPart(self._first, self._rows, channels)],
        )


def detail_window(reference: np.ndarray, candidate: np.ndarray, plan: PairPlan, allowed: Allowed) -> Details:
    """Count the elements outside a tolerance; with a full plan, sketch all of them, too."""
    r, d = np.ascontiguousarray(reference), np.ascontiguousarray(candidate)
    bins = _own.counts
    told, found = _plan_struct(plan, bins), c.Figures()
    engine = _library()
    engine.begin(byref(found))
    outside = engine.count_outside(byref(told), byref(found), _address(r), _address(d), r.size, *allowed)
    return Details(outside, _sketch(found.sketch, bins, plan) if plan.full else None)


def _plan_struct(plan: PairPlan, bins: np.ndarray) -> c.Plan:
    rows = plan.rows
    assert plan.grid is not None, "floats have a spacing"
    return c.Plan(
        reference_type=c.TYPES[plan.reference.name],
        candidate_type=c.TYPES[plan.candidate.name],
        row=rows.row,
        group=rows.group,
        channel_rows=rows.channel_rows,
        sampled=plan.sampled,
        full=plan.full,
        smallest_normal=plan.grid.tiny,
        bins=_address(bins),
    )


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


class _Bins(threading.local):
    """A count for every bin, all 0; whoever used some sets them back to 0."""

    def __init__(self) -> None:
        self.counts = np.zeros(BINS, np.int64)


_own = _Bins()


def _sketch(found: c.Sketch, bins: np.ndarray, plan: PairPlan) -> Sketch:
    histogram = Histogram(zeros=int(bins[0]))
    bins[0] = 0
    if found.high_bin:
        used = bins[found.low_bin : found.high_bin + 1]
        histogram.first, histogram.counts = found.low_bin, used.copy()
        used[:] = 0
    assert plan.grid is not None, "floats have a spacing"
    return Sketch(found.count, found.relative, found.relative_sum, found.most_powers / plan.grid.eps, histogram)


def _cells(found: c.Figures, table: np.ndarray) -> Cells:
    if not found.cell_count:
        return Cells(found.cell_points)
    used = table[table[:, 0] != 0].astype(np.int64)
    used = used[used[:, 0].argsort()]
    return Cells(found.cell_points, [used[:, 0]], [used[:, 1]])


def _hull(found: c.Figures) -> Hull:
    hull = found.hull
    corners = slice(1, hull.count + 1)
    return Hull(
        zeros=found.zeros,
        at_zero=hull.at_zero,
        steepest=hull.steepest,
        corners=list(zip(hull.x[corners], hull.d[corners], strict=True)),
        slack=hull.slack,
    )


def _moments(side: c.Side) -> Moments:
    return Moments(side.count, side.mean, side.spread, side.low, side.high, side.nan, side.inf, bool(side.whole))


COMPILED = EngineCalls(Stretch, detail_window, gains_from_threads=True)
