"""How a pair is cut up and what is sampled: fixed by shape and types alone, so that threads do not matter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from firstdiff import dtypes
from firstdiff.measure.numerics import Domain, Grid, coarser_grid, domain_of
from firstdiff.measure.sums import RowPlan, row_plan


class Allowed(NamedTuple):
    """`|c - r| <= atol + rtol * |r|`."""

    atol: float
    rtol: float


EXACT = Allowed(0.0, 0.0)


BLOCK = 1 << 15
WINDOW_BYTES = 12 << 20
_SHARE, _LEAST_SHARE, _WINDOWS = 4, 4, 8
SMALL = 1 << 16

PERIOD = 1 << 16
PIECE = 1 << 10
CELLS_PIECE = 1 << 7  # the part of a piece that the cells are taken from
SAMPLE_STRIDE = 11


@dataclass(frozen=True, slots=True)
class PairPlan:
    """What measuring a pair takes besides the data.

    reference, candidate: the types of its sides
    rows: how its rows are summed
    grid: the spacing that ULPs are counted in; None for whole numbers
    whole: both sides are whole numbers; sums_rows: neither is, nor complex
    sampled: it is large enough for some figures to be taken from a sample
    full: all figures but the cells are taken from every element all the same
    """

    reference: np.dtype
    candidate: np.dtype
    rows: RowPlan
    domain: Domain
    grid: Grid | None
    whole: bool
    sums_rows: bool
    sampled: bool
    full: bool

    @property
    def step(self) -> int:
        """What stretches are multiples of: whole rows, unless these are long."""
        group = self.rows.group
        return group if group <= length_for(self.reference, self.candidate) // _LEAST_SHARE else PERIOD

    def pieces(self, start: int, stop: int, length: int) -> Iterator[slice]:
        """The parts of a block that belong to the sample, of each period so many elements, counted from its start."""
        if not self.sampled:
            yield slice(0, stop - start)
            return
        for period in range(start // PERIOD, (stop - 1) // PERIOD + 1):
            first = sampled_piece(period)
            begin, end = max(first, start), min(first + length, stop)
            if begin < end:
                yield slice(begin - start, end - start)


def sampled_piece(period: int) -> int:
    """Where the piece begins that is sampled of a period; its place moves, lest it keep to a few channels."""
    return period * PERIOD + period * SAMPLE_STRIDE * PIECE % PERIOD


@lru_cache(1024)
def plan_of(shape: tuple[int, ...], reference: np.dtype, candidate: np.dtype, *, sampled: bool, full: bool) -> PairPlan:
    """The plan for a pair of two types, with the shape of its reference."""
    kinds = {dtypes.kind_of(reference), dtypes.kind_of(candidate)}
    return PairPlan(
        reference=reference,
        candidate=candidate,
        rows=row_plan(shape),
        domain=domain_of(reference, candidate),
        grid=coarser_grid(reference, candidate),
        whole=kinds <= {"int", "bool"},
        sums_rows=kinds == {"float"},
        sampled=sampled,
        full=full,
    )


def window_length(plan: PairPlan) -> int:
    """Elements of a window: 12 MiB of the wider side, or of float32 where that is wider, in whole rows if it can be."""
    length = length_for(plan.reference, plan.candidate)
    return length // plan.step * plan.step


def length_for(*types: np.dtype) -> int:
    """Elements of 12 MiB."""
    return WINDOW_BYTES // max(4, *(dtype.itemsize for dtype in types))


def windows_of(size: int, length: int) -> list[tuple[int, int]]:
    """Where windows of a length begin and end."""
    return [(start, min(start + length, size)) for start in range(0, size, length)]


def stretches_of(size: int, window: int, step: int) -> list[tuple[int, int]]:
    """Where stretches begin and end, each gathered as one, a multiple of `step` elements.

    The first are long, for each begins anew; the last are short, for threads share them out and should end together.
    """
    least = -(-window // _LEAST_SHARE)
    found, start = [], 0
    while start < size:
        length = min(max((size - start) // _SHARE, least), window * _WINDOWS)
        found.append((start, min(start + -(-length // step) * step, size)))
        start = found[-1][1]
    return found
