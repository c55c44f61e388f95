"""The compiled engine: float types of two bytes and more; other pairs are left to numpy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby
from typing import final

import numpy as np

from firstdiff import dtypes, memory
from firstdiff.measure import kernel_places as kernel
from firstdiff.measure.accumulator import Accumulator
from firstdiff.measure.allowed import Allowed
from firstdiff.measure.cells import Cells
from firstdiff.measure.engine_numpy import NUMPY, Stretch
from firstdiff.measure.hull import CAPACITY, ROUNDING, Hull
from firstdiff.measure.moments import Moments
from firstdiff.measure.native import Native, Passed, is_made, native
from firstdiff.measure.passes import Details, EngineCalls, Gathering
from firstdiff.measure.plan import CELLS_PIECE, PERIOD, PairPlan
from firstdiff.measure.promote import fits_float32
from firstdiff.measure.scattered import Side
from firstdiff.measure.sketch import BINS, Histogram, Sketch

# the types there is code for, and what they are to the compiler, which has no word for some
_COMPILED_AS: dict[np.dtype, np.dtype] = {
    np.dtype(np.float32): np.dtype(np.float32),
    np.dtype(np.float64): np.dtype(np.float64),
    dtypes.from_name("bfloat16"): np.dtype(np.uint16),
    np.dtype(np.float16): np.dtype(np.int16),
}

_NO_BOXES = np.empty((0, kernel.BOX), np.int64)

# before anything has been seen
_NO_SUMS = np.zeros(kernel.SUMS)
_NO_SUMS[kernel.MAX_ABS] = -1.0
_NO_SUMS[kernel.SLACK] = ROUNDING
_NO_SUMS[[kernel.LOW_R, kernel.LOW_C]] = math.inf
_NO_SUMS[[kernel.HIGH_R, kernel.HIGH_C]] = -math.inf
_NO_COUNTS = np.zeros(kernel.COUNTS, np.int64)
_NO_COUNTS[kernel.ARGMAX] = -1
_NO_COUNTS[kernel.FIRST_BIN] = BINS


def supports(reference: np.dtype, candidate: np.dtype) -> bool:
    return reference in _COMPILED_AS and candidate in _COMPILED_AS


def is_ready(reference: np.dtype, candidate: np.dtype) -> bool:
    """Whether the code for such a pair need not be made first, which takes seconds."""
    sides = _COMPILED_AS[reference], _COMPILED_AS[candidate]
    return is_made("measure", *sides) and is_made("count", *sides)


def gather(reference: np.dtype, candidate: np.dtype, plan: PairPlan, size: int) -> Gathering:
    """Begin a stretch; pairs of other types are left to numpy."""
    if not supports(reference, candidate):
        return NUMPY.gather(reference, candidate, plan, size)
    return _Stretch(plan, _desk(_lane(reference, candidate), plan, size))


@final
class _Stretch:
    def __init__(self, plan: PairPlan, desk: _Desk) -> None:
        self._plan, self._desk = plan, desk
        self._left: Stretch | None = None
        self._run: Native | None = None

    def add(self, reference: Side, candidate: Side, start: int) -> None:
        """Take in a window; `start` is the flat index of its first element."""
        desk = self._desk
        (r, boxes_r), (c, boxes_c) = _taken(reference), _taken(candidate)
        if self._run is None:
            # the code may write to both, into which it gathers what is scattered
            self._run = native("measure", (np.empty(0, r.dtype), np.empty(0, c.dtype), *desk.arguments))
        desk.passed.put((r, c, boxes_r, boxes_c, start, reference.size))
        self._run(desk.passed)
        left = int(desk.counts[kernel.LEFT])
        if not left:
            return
        desk.counts[kernel.LEFT] = 0
        self._left = self._left or Stretch(self._plan)
        for first, stop in _runs(desk.details.left[:left].tolist()):
            self._left.add(reference[first:stop], candidate[first:stop], start + first)

    def close(self) -> Accumulator:
        gathered = _gathered(self._plan, self._desk)
        self._desk.leave()
        if self._left is not None:
            gathered.merge(self._left.close())
        return gathered


def detail_window(reference: np.ndarray, candidate: np.ndarray, plan: PairPlan, allowed: Allowed) -> Details:
    """How many elements that are finite on both sides lie outside, and the sketch of all of them if wanted."""
    if not supports(reference.dtype, candidate.dtype):
        return NUMPY.detail(reference, candidate, plan, allowed)
    arguments = (_bits(reference), _bits(candidate), float(allowed.atol), float(allowed.rtol))
    outside = native("count", arguments)(Passed(arguments))
    if not plan.full:
        return Details(outside, None)
    gathering = gather(reference.dtype, candidate.dtype, plan, reference.size)
    gathering.add(reference, candidate, 0)
    return Details(outside, gathering.close().sketch)


def _lane(reference: np.dtype, candidate: np.dtype) -> type[np.floating]:
    """The type to compute extremes in."""
    return np.float32 if fits_float32(reference) and fits_float32(candidate) else np.float64


def _bits(values: np.ndarray) -> np.ndarray:
    """As the compiler takes them; all read-only, lest there be two versions of the code."""
    bits: np.ndarray = values.view(_COMPILED_AS[values.dtype])
    bits.flags.writeable = False
    return bits


def _taken(side: Side) -> tuple[np.ndarray, np.ndarray]:
    """The values; or room for a piece of them and a block more, and the boxes to gather it from."""
    if isinstance(side, np.ndarray):
        return _bits(side), _NO_BOXES
    layout = side.layout
    return memory.empty((layout.piece + kernel.BLOCK,), _COMPILED_AS[layout.source.dtype]), layout.table


@final
class _Desk:
    """All that the kernel writes to, for a stretch of up to a size; then for others."""

    def __init__(self, lane: type[np.floating], full: bool, size: int) -> None:
        corners = CAPACITY + 1
        self.size = size
        self._kind = lane, full
        sampled = (size // PERIOD + 2) * CELLS_PIECE
        self.sums, self.counts = np.empty(kernel.SUMS), _NO_COUNTS.copy()
        lines = np.empty(kernel.LINES), np.empty(kernel.LANE_LINES, lane)
        self.outline = kernel.Outline(np.empty(corners), np.empty(corners), *lines)
        self.details = kernel.Details(
            np.zeros((kernel.TABLES if full else 1, BINS), np.int32),
            np.empty(sampled, np.int32),
            np.empty(sampled, np.int32),
            np.empty(size // kernel.BLOCK + 1, np.int64),
        )
        self.room = kernel.Room(
            np.empty(kernel.ROWS, lane),
            np.empty(kernel.SURVEY),
            np.empty(kernel.BLOCK, np.int32),
            np.empty(kernel.CELLS, np.int32),
            np.empty((2, 2), np.int64),
            np.empty(kernel.MOST_AXES, np.int64),
            np.empty(kernel.RUNS, np.int64),
            np.empty(kernel.RUNS, np.int64),
        )
        # what the kernel takes beside the two sides; first the boxes they lie in, where they start, and their size
        place = (_NO_BOXES, _NO_BOXES, 0, 0)
        self.arguments = (*place, int(full), self.sums, self.counts, self.outline, self.details, self.room)
        nothing = np.empty(0, lane)
        self.passed = Passed((nothing, nothing, *self.arguments))

    def clear(self, plan: PairPlan) -> None:
        for used in self._bins_in_use():
            used[:] = 0
        self.sums[:] = _NO_SUMS
        self.sums[kernel.TINY] = plan.grid.tiny if plan.grid else 0.0
        self.counts[:] = _NO_COUNTS
        self.outline.lines[:] = 0.0

    def leave(self) -> None:
        """Others may use it now."""
        _free[self._kind].append(self)

    def histogram(self) -> Histogram:
        zeros, others = self._bins_in_use()
        counts = others.sum(axis=0, dtype=np.int64) if len(others) > 1 else others[0].astype(np.int64)
        return Histogram(int(zeros.sum()), self.counts.item(kernel.FIRST_BIN), counts)

    def _bins_in_use(self) -> tuple[np.ndarray, np.ndarray]:
        """Those of differences of 0, and those from the first to the last of others."""
        first, last = self.counts.item(kernel.FIRST_BIN), self.counts.item(kernel.LAST_BIN)
        return self.details.bins[:, 0], self.details.bins[:, first : last + 1]


_free: dict[tuple[type[np.floating], bool], list[_Desk]] = {}


def _desk(lane: type[np.floating], plan: PairPlan, size: int) -> _Desk:
    """A desk that nobody is at."""
    try:
        desk = _free.setdefault((lane, plan.full), []).pop()
    except IndexError:
        desk = None
    if desk is None or desk.size < size:
        desk = _Desk(lane, plan.full, size)
    desk.clear(plan)
    return desk


def _runs(blocks: list[int]) -> Iterator[tuple[int, int]]:
    """Bounds of the stretches that blocks, given by their first elements, make up."""
    for _, run in groupby(enumerate(blocks), lambda item: item[1] - item[0] * kernel.BLOCK):
        firsts = [first for _, first in run]
        yield firsts[0], firsts[-1] + kernel.BLOCK


def _gathered(plan: PairPlan, desk: _Desk) -> Accumulator:
    sums, counts, outline = desk.sums.tolist(), desk.counts.tolist(), desk.outline
    corners, keys = counts[kernel.CORNERS], counts[kernel.KEYS]
    return Accumulator(
        reference=_moments(counts[kernel.FINITE], sums, kernel.MEAN_R, kernel.LOW_R),
        candidate=_moments(counts[kernel.FINITE], sums, kernel.MEAN_C, kernel.LOW_C),
        elements=counts[kernel.FINITE],
        finite=counts[kernel.FINITE],
        sum_abs=sums[kernel.SUM_ABS],
        rr=sums[kernel.RR],
        cc=sums[kernel.CC],
        dd=sums[kernel.DD],
        rc=sums[kernel.RC],
        rest=sums[kernel.REST],
        max_abs=sums[kernel.MAX_ABS],
        argmax=counts[kernel.ARGMAX],
        hull=Hull(
            zeros=int(sums[kernel.ZEROS]),
            at_zero=sums[kernel.AT_ZERO],
            steepest=sums[kernel.STEEPEST],
            corners=list(zip(outline.hull_x[:corners].tolist(), outline.hull_d[:corners].tolist(), strict=True)),
            slack=sums[kernel.SLACK],
        ),
        sketch=Sketch(
            count=counts[kernel.SKETCHED],
            relative_count=counts[kernel.RELATIVE],
            relative_sum=sums[kernel.REL_SUM],
            max_ulp=sums[kernel.MAX_POWERS] / plan.grid.eps if plan.grid else 0.0,
            histogram=desk.histogram(),
        ),
        cells=Cells(counts[kernel.SAMPLED], [desk.details.keys[:keys].copy()], [desk.details.points[:keys].copy()]),
    )


def _moments(count: int, sums: list[float], mean_at: int, low_at: int) -> Moments:
    return Moments(count, sums[mean_at], sums[mean_at + 1], sums[low_at], sums[low_at + 1])


NUMBA = EngineCalls(gather, detail_window, gains_from_threads=True, gathers=True)
