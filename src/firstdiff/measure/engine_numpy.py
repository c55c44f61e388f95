"""The numpy engine: every dtype, block by block, without the compiled kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, final

import numpy as np

from firstdiff.measure.accumulator import Accumulator, Rest, add_places, add_side, bounds_of, rest_of
from firstdiff.measure.envelope import Cells
from firstdiff.measure.hull import Exact
from firstdiff.measure.numerics import Domain, dot, to_complex128, to_float64, to_numbers, total
from firstdiff.measure.passes import Bounds, Details, EngineCalls
from firstdiff.measure.plan import BLOCK, CELLS_PIECE, PIECE, Allowed, PairPlan
from firstdiff.measure.sketch import Sketch
from firstdiff.measure.sums import RowPart, RowSums
from firstdiff.trace import Index

_EXACT = 1 << 53


@dataclass(frozen=True, slots=True)
class Block:
    """All of it float64.

    r, c, d: reference, candidate and candidate - reference; for complex pairs real and imaginary parts in turn
    size, difference: |r| and |c - r|
    reference_values, candidate_values: what the statistics are taken of: r and c, or their magnitudes
    whole: |c - r| as whole numbers where float64 cannot hold it
    """

    r: np.ndarray
    c: np.ndarray
    d: np.ndarray
    size: np.ndarray
    difference: np.ndarray
    reference_values: np.ndarray
    candidate_values: np.ndarray
    whole: np.ndarray | None = None

    def exact(self, at: Index) -> tuple[np.ndarray, np.ndarray]:
        """|r| and |c - r| at some places."""
        return self.size[at], self.difference[at]


def block_of(domain: Domain, reference: np.ndarray, candidate: np.ndarray) -> Block:
    """Work out the differences of a stretch in float64."""
    if domain == "complex":
        return _complex_block(reference, candidate)
    if domain == "wide" and not (_is_exact(reference) and _is_exact(candidate)):
        return _wide_block(reference, candidate)
    return _real_block(to_float64(reference), to_float64(candidate))


def _real_block(r: np.ndarray, c: np.ndarray) -> Block:
    d = c - r
    return Block(r, c, d, np.abs(r), np.abs(d), r, c)


def _complex_block(reference: np.ndarray, candidate: np.ndarray) -> Block:
    r, c = to_complex128(reference), to_complex128(candidate)
    d = c - r
    size = np.abs(r)
    return Block(
        r.view(np.float64),
        c.view(np.float64),
        d.view(np.float64),
        size,
        np.abs(d),
        size if reference.dtype.kind == "c" else to_float64(reference),
        np.abs(c) if candidate.dtype.kind == "c" else to_float64(candidate),
    )


def _wide_block(reference: np.ndarray, candidate: np.ndarray) -> Block:
    above = _exceeds(candidate, reference)
    whole = _whole_difference(reference, candidate, above)
    r, c = to_float64(reference), to_float64(candidate)
    difference = whole.astype(np.float64)
    return Block(r, c, np.where(above, difference, -difference), np.abs(r), difference, r, c, whole)


def _whole_difference(reference: np.ndarray, candidate: np.ndarray, above: np.ndarray) -> np.ndarray:
    """|c - r|, as Python's integers where it may exceed 2^64: a huge uint64 against a negative number."""
    if np.uint64 in (reference.dtype, candidate.dtype) and (_negative(reference) | _negative(candidate)).any():
        huge: np.ndarray = np.abs(candidate.astype(object) - reference.astype(object))
        return huge
    r, c = reference.astype(np.uint64), candidate.astype(np.uint64)  # modulo 2^64, where differences come out right
    return np.where(above, c - r, r - c)


def _exceeds(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return left > right elementwise for integers of any two dtypes, without rounding to float64."""
    negative_left, negative_right = _negative(left), _negative(right)
    larger = left.astype(np.uint64) > right.astype(np.uint64)  # holds wherever the signs agree
    return np.where(negative_left == negative_right, larger, negative_right)


def _negative(values: np.ndarray) -> np.ndarray:
    return values < 0 if values.dtype.kind == "i" else np.zeros(values.shape, bool)


def _is_exact(values: np.ndarray) -> bool:
    if values.dtype.itemsize < 8:
        return True
    return int(values.min()) >= -_EXACT and int(values.max()) <= _EXACT


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


@final
class Stretch:
    """Windows measured one after the other."""

    def __init__(self, plan: PairPlan, start: int, stop: int) -> None:
        self._gathered = Accumulator()
        self._plan = plan
        self._rows = RowSums(plan.rows, start, stop) if plan.sums_rows else None
        self._samples: list[tuple[np.ndarray, np.ndarray]] = []
        self._cells: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, reference: np.ndarray, candidate: np.ndarray, start: int) -> None:
        """Take in a window; `start` is the flat index of its first element."""
        self._gathered.elements += reference.size
        with np.errstate(all="ignore"):
            for first in range(0, reference.size, BLOCK):
                part = slice(first, first + BLOCK)
                self._add_block(reference[part], candidate[part], start + first)

    def close(self) -> Accumulator:
        """Take in the sample, too; then all is there."""
        if self._cells:
            self._gathered.cells = Cells.of(*_joined(self._cells))
        if self._samples and not (self._plan.full and self._plan.sampled):
            with np.errstate(all="ignore"):
                self._gathered.sketch.add(*_joined(self._samples), self._plan.grid)
        if self._rows is not None:
            self._gathered.rows = [RowPart(self._rows.first, self._rows.rows, self._rows.channels)]
        return self._gathered

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
        if self._rows is not None:
            self._rows.add(block.r, block.d, None, start)
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
        if self._rows is not None:
            self._rows.add(np.where(both, r, 0.0), np.where(both, c - r, 0.0), both, start)
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
        gathered.r += sums.r
        gathered.d += sums.d
        gathered.rd += sums.rd
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
        for samples, most in ((self._samples, PIECE), (self._cells, CELLS_PIECE)):
            for piece in self._plan.pieces(start, start + length, most):
                wanted = piece if places is None else slice(*np.searchsorted(places, [piece.start, piece.stop]))
                samples.append(exact(wanted))
        if self._plan.full and self._plan.sampled:
            self._gathered.sketch.add(*exact(slice(None)), self._plan.grid)


def _joined(pieces: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    sizes, differences = zip(*pieces, strict=True)
    return np.concatenate(sizes), np.concatenate(differences)


class _Sums(NamedTuple):
    top: float
    absolute: float
    r: float
    d: float
    rr: float
    cc: float
    dd: float
    rd: float
    rest: Rest

    @classmethod
    def of(cls, block: Block) -> _Sums:
        top = float(block.difference.max())
        r, rr, cc = total(block.r), dot(block.r, block.r), dot(block.c, block.c)
        if top == 0.0:
            return cls(top, 0.0, r, 0.0, rr, cc, 0.0, 0.0, Rest(rr, 0.0))
        rd = dot(block.r, block.d)
        if math.isnan(rd):
            rd = 0.0  # infinities of both signs: float64 has overflowed, and rr or dd is infinite as well
        dd = dot(block.d, block.d)
        rest = rest_of(block.r, block.c, block.d, rr, rd, dd)
        return cls(top, total(block.difference), r, total(block.d), rr, cc, dd, rd, rest)


def gather(plan: PairPlan, stretches: list[Bounds]) -> Callable[[int, int], Stretch]:  # noqa: ARG001
    return partial(Stretch, plan)


NUMPY = EngineCalls(gather, detail_window, gains_from_threads=False)
