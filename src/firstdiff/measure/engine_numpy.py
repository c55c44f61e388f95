"""The engine that needs no compilation: numpy, block by block."""

from __future__ import annotations

import math
from typing import NamedTuple, final

import numpy as np

from firstdiff.measure.accumulator import Accumulator
from firstdiff.measure.block import Block, block_of
from firstdiff.measure.cells import Cells
from firstdiff.measure.direction import Rest, rest_of
from firstdiff.measure.dot import dot, total
from firstdiff.measure.hull import Exact
from firstdiff.measure.moments import bounds_of
from firstdiff.measure.narrow import NarrowLook
from firstdiff.measure.nonfinite import add_places, add_side
from firstdiff.measure.outside import detail_window
from firstdiff.measure.passes import EngineCalls
from firstdiff.measure.plan import BLOCK, CELLS_PIECE, NARROW_BLOCK, PairPlan
from firstdiff.measure.promote import to_numbers
from firstdiff.measure.scattered import Side


def gather(_reference: np.dtype, _candidate: np.dtype, plan: PairPlan, _size: int) -> Stretch:
    return Stretch(plan)


@final
class Stretch:
    """Windows measured one after the other."""

    def __init__(self, plan: PairPlan) -> None:
        self._gathered = Accumulator()
        self._plan = plan
        self._samples: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, reference: Side, candidate: Side, start: int) -> None:
        """Take in a window; `start` is the flat index of its first element."""
        reference, candidate = reference[:], candidate[:]
        with np.errstate(all="ignore"):
            if self._plan.narrow:
                self._add_narrow(reference, candidate, start)
            else:
                self._add_wide(reference, candidate, start)

    def close(self) -> Accumulator:
        """Take in the sample, too; then all is there."""
        if self._samples:
            few = slice(CELLS_PIECE if self._plan.sampled else None)
            self._gathered.cells = Cells.of(*_joined([(sizes[few], d[few]) for sizes, d in self._samples]))
            if not (self._plan.full and self._plan.sampled):
                with np.errstate(all="ignore"):
                    self._gathered.sketch.add(*_joined(self._samples), self._plan.grid)
        return self._gathered

    def _add_narrow(self, reference: np.ndarray, candidate: np.ndarray, start: int) -> None:
        """In float32 as far as that will do."""
        look = NarrowLook(self._gathered)
        for first in range(0, reference.size, NARROW_BLOCK):
            part = slice(first, first + NARROW_BLOCK)
            r, c = reference[part], candidate[part]
            if look.add(r, c, start + first):
                self._add_sample(look.exact, start + first, r.size, None)
            else:
                self._add_wide(r, c, start + first)

    def _add_wide(self, reference: np.ndarray, candidate: np.ndarray, start: int) -> None:
        """In float64."""
        self._gathered.elements += reference.size
        for first in range(0, reference.size, BLOCK):
            part = slice(first, first + BLOCK)
            self._add_block(reference[part], candidate[part], start + first)

    def _add_block(self, reference: np.ndarray, candidate: np.ndarray, start: int) -> None:
        block = block_of(self._plan.domain, reference, candidate)
        bounds_r = bounds_of(reference, block.reference_values)
        bounds_c = bounds_of(candidate, block.candidate_values)
        if not all(map(math.isfinite, (*bounds_r, *bounds_c))):
            self._add_mixed(reference, candidate, start)
            return
        sums = _Sums.of(block)
        self._gathered.reference.add(block.reference_values, sums.rr, bounds_r)
        self._gathered.candidate.add(block.candidate_values, sums.cc, bounds_c)
        self._add_pair(block, sums, start, None)
        self._add_sample(block.exact, start, reference.size, None)

    def _add_mixed(self, reference: np.ndarray, candidate: np.ndarray, start: int) -> None:
        """Take in a block that holds NaN or infinities."""
        r, c = to_numbers(reference), to_numbers(candidate)
        finite_r, finite_c = np.isfinite(r), np.isfinite(c)
        add_side(self._gathered.reference, reference, r, finite_r)
        add_side(self._gathered.candidate, candidate, c, finite_c)
        both = finite_r & finite_c
        places = np.flatnonzero(~both)
        add_places(self._gathered.nonfinite, r[places], c[places], places + start)
        kept = np.flatnonzero(both)
        if kept.size:
            block = block_of(self._plan.domain, reference[kept], candidate[kept])
            self._add_pair(block, _Sums.of(block), start, kept)
            self._add_sample(block.exact, start, reference.size, kept)

    def _add_pair(self, block: Block, sums: _Sums, start: int, places: np.ndarray | None) -> None:
        """Take in elements that are finite on both sides; `places` tells which of the block they are, if not all."""
        gathered = self._gathered
        gathered.finite += block.size.size
        gathered.sum_abs += sums.absolute
        gathered.add_products(sums.rr, sums.cc, sums.dd, *sums.rest)
        if sums.top:
            gathered.hull.add(block.size, block.difference, sums.top, block.exact)
        else:
            gathered.hull.zeros += block.size.size - int(np.count_nonzero(block.size))
        exactly = block.difference if block.whole is None else block.whole
        peak = sums.top if block.whole is None else int(block.whole.max())
        if peak > gathered.max_abs:
            at = int(exactly.argmax())
            gathered.peak(peak, start + (at if places is None else int(places[at])))

    def _add_sample(self, exact: Exact, start: int, length: int, places: np.ndarray | None) -> None:
        for piece in self._plan.pieces(start, start + length):
            wanted = piece if places is None else slice(*np.searchsorted(places, [piece.start, piece.stop]))
            self._samples.append(exact(wanted))
        if self._plan.full and self._plan.sampled:
            self._gathered.sketch.add(*exact(slice(None)), self._plan.grid)


def _joined(pieces: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    sizes, differences = zip(*pieces, strict=True)
    return np.concatenate(sizes), np.concatenate(differences)


class _Sums(NamedTuple):
    top: float
    absolute: float
    rr: float
    cc: float
    dd: float
    rest: Rest

    @classmethod
    def of(cls, block: Block) -> _Sums:
        top = float(block.difference.max())
        rr, cc = dot(block.r, block.r), dot(block.c, block.c)
        if top == 0.0:
            return cls(top, 0.0, rr, cc, 0.0, Rest(rr, 0.0))
        rd = dot(block.r, block.d)
        if math.isnan(rd):
            rd = 0.0  # infinities of both signs: float64 has overflowed, and rr or dd is infinite as well
        dd = dot(block.d, block.d)
        return cls(top, total(block.difference), rr, cc, dd, rest_of(block.r, block.c, block.d, rr, rd, dd))


NUMPY = EngineCalls(gather, detail_window, gains_from_threads=False, gathers=False)
