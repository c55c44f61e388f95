"""The engine that calls the compiled kernel: float16, bfloat16, float32 and float64 in any mix."""

from __future__ import annotations

import threading
from collections.abc import Callable
from ctypes import byref
from functools import cache
from itertools import accumulate
from typing import final

import numpy as np

from firstdiff import memory
from firstdiff.measure import library as c
from firstdiff.measure.accumulator import Accumulator, Moments, NonFinite
from firstdiff.measure.envelope import Cells
from firstdiff.measure.hull import Hull
from firstdiff.measure.passes import Bounds, Details, EngineCalls
from firstdiff.measure.plan import Allowed, PairPlan
from firstdiff.measure.sketch import BINS, Histogram, Sketch
from firstdiff.measure.sums import FIGURES, RowPart


def supports(plan: PairPlan) -> bool:
    """True where the kernel was built, and takes both types."""
    return _type(plan.reference) is not None and _type(plan.candidate) is not None and c.library() is not None


@cache
def _type(dtype: np.dtype) -> int | None:
    """The kernel's number of a type; numpy takes long to spell its name."""
    return c.TYPES.get(dtype.name)


def _library() -> c.Library:
    found = c.library()
    assert found is not None, "engines are chosen by `supports`"
    return found


@final
class Stretch:
    """Windows scanned one after the other; `sums`, all 0, takes those of rows, and behind them those of channels."""

    def __init__(self, plan: PairPlan, start: int, sums: np.ndarray) -> None:
        self._library = _library()
        self._plan = plan
        self._first = plan.rows.groups(start, start)[0]
        channels = _channel_room(plan)
        rows = sums.size - channels
        self._rows = sums[:rows].reshape(-1, FIGURES)
        self._channels = sums[rows:].reshape(FIGURES, -1)[:, : -c.CHANNEL_ROOM] if channels else None
        self._struct = _plan_struct(plan)
        address = _address(sums)
        self._struct.rows, self._struct.first_group = address, self._first
        self._struct.channels = address + rows * sums.itemsize
        self._figures = c.Figures()
        self._library.begin(byref(self._figures))

    def add(self, reference: np.ndarray, candidate: np.ndarray, start: int) -> None:
        """Take in a window; `start` is the flat index of its first element."""
        r, d = np.ascontiguousarray(reference), np.ascontiguousarray(candidate)
        self._library.scan(byref(self._struct), byref(self._figures), _address(r), _address(d), start, r.size)

    def close(self) -> Accumulator:
        """Return the accumulated figures of all windows."""
        found = self._figures
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
            at_max=(found.reference_at_max, found.candidate_at_max),
            nonfinite=NonFinite(
                found.both_nan, found.equal_inf, found.conflicting, found.first_conflict, found.first_both_nan
            ),
            hull=_hull(found),
            sketch=_sketch(found.sketch, self._plan),
            cells=_cells(found),
            rows=[RowPart(self._first, self._rows, self._channels)],
        )


def detail_window(reference: np.ndarray, candidate: np.ndarray, plan: PairPlan, allowed: Allowed) -> Details:
    """Count the elements outside a tolerance; with a full plan, sketch all of them, too."""
    r, d = np.ascontiguousarray(reference), np.ascontiguousarray(candidate)
    struct, found = _plan_struct(plan), c.Figures()
    engine = _library()
    engine.begin(byref(found))
    outside = engine.count_outside(byref(struct), byref(found), _address(r), _address(d), r.size, *allowed)
    return Details(outside, _sketch(found.sketch, plan) if plan.full else None)


def _plan_struct(plan: PairPlan) -> c.Plan:
    rows = plan.rows
    assert plan.grid is not None, "floats have a spacing"
    return c.Plan(
        _type(plan.reference),
        _type(plan.candidate),
        rows.row,
        rows.group,
        0,
        rows.channel_rows,
        plan.sampled,
        plan.full,
        plan.grid.tiny,
        None,
        None,
        *_own.addresses,
    )


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


class _Tables(threading.local):
    """Tables of a thread for one stretch at a time; whoever filled some of their entries sets them back to 0."""

    def __init__(self) -> None:
        self.bins = np.zeros(BINS, np.int64)
        self.cells = np.zeros((c.CELL_SLOTS, 2), np.uint32)
        self.used = np.zeros(c.MOST_CELLS, np.uint16)
        self.addresses = [_address(table) for table in (self.bins, self.cells, self.used)]


_own = _Tables()


def _sketch(found: c.Sketch, plan: PairPlan) -> Sketch:
    bins = _own.bins
    histogram = Histogram(zeros=int(bins[0]))
    bins[0] = 0
    if found.high_bin:
        used = bins[found.low_bin : found.high_bin + 1]
        histogram.first, histogram.counts = found.low_bin, used.copy()
        used[:] = 0
    assert plan.grid is not None, "floats have a spacing"
    return Sketch(found.count, found.relative, found.relative_sum, found.most_powers / plan.grid.eps, histogram)


def _cells(found: c.Figures) -> Cells:
    if not found.cell_count:
        return Cells(found.cell_points)
    slots = _own.used[: found.cell_count]
    keys, points = _own.cells.take(slots, 0).T.astype(np.int64)
    _own.cells[slots] = 0
    order = keys.argsort()
    return Cells.of_keys(found.cell_points, keys[order] & c.CELL_OCTAVES, points[order])


def _hull(found: c.Figures) -> Hull:
    hull = found.hull
    end = hull.count + 1
    corners = list(zip(hull.x[1:end], hull.d[1:end], strict=True))
    return Hull(found.zeros, hull.at_zero, hull.steepest, corners, hull.slack)


def _moments(side: c.Side) -> Moments:
    return Moments(side.count, side.mean, side.spread, side.low, side.high, side.nan, side.inf, bool(side.whole))


def gather(plan: PairPlan, stretches: list[Bounds]) -> Callable[[int, int], Stretch]:
    """Prepare the tables of all stretches in one piece, in memory that was used before: fresh memory takes as long as
    the scan.
    """
    channels = _channel_room(plan)
    ends = [0, *accumulate(plan.rows.groups(start, stop)[1] * FIGURES + channels for start, stop in stretches)]
    sums = memory.empty((ends[-1],), np.dtype(np.float64))
    sums.fill(0)
    places = {start: slice(*ends[at : at + 2]) for at, (start, _) in enumerate(stretches)}

    def begin(start: int, _: int) -> Stretch:
        return Stretch(plan, start, sums[places[start]])

    return begin


def _channel_room(plan: PairPlan) -> int:
    return FIGURES * (plan.rows.row + c.CHANNEL_ROOM) if plan.rows.channel_rows else 0


COMPILED = EngineCalls(gather, detail_window, gains_from_threads=True)
