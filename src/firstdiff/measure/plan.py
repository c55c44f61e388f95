"""Plan the windows and the sample of a pair from shape and dtypes alone, so that results do not depend on threads."""

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
_SHARE, _LEAST_SHARE, _WINDOWS = 4, 2, 8
SMALL = 1 << 16

PERIOD = 1 << 16
PIECE = 1 << 10
CELLS_PIECE = 1 << 7  # the part of a piece that the cells are taken from
SAMPLE_STRIDE = 11


@dataclass(frozen=True, slots=True)
class PairPlan:
    """The windows, sample and row grouping with which a pair is measured.

    reference, candidate: the types of its sides
    rows: how its rows are summed
    grid: the spacing that ULPs are counted in; None for whole numbers
    whole: both sides are whole numbers; sums_rows: neither is, nor complex
    step: what stretches are multiples of: whole rows, unless these are long
    window: elements of a window: 12 MiB of the wider side, or of float32 where that is wider, in whole steps
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
    step: int
    window: int
    sampled: bool
    full: bool

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
    """Return the first sampled element of a period; its offset varies so that the sample covers all channels."""
    return period * PERIOD + period * SAMPLE_STRIDE * PIECE % PERIOD


@lru_cache(1024)
def plan_of(shape: tuple[int, ...], reference: np.dtype, candidate: np.dtype, *, sampled: bool, full: bool) -> PairPlan:
    """The plan for a pair of two types, with the shape of its reference."""
    kinds = {dtypes.kind_of(reference), dtypes.kind_of(candidate)}
    rows, length = row_plan(shape), length_for(reference, candidate)
    step = rows.group if rows.group <= length // _LEAST_SHARE else PERIOD
    return PairPlan(
        reference=reference,
        candidate=candidate,
        rows=rows,
        domain=domain_of(reference, candidate),
        grid=coarser_grid(reference, candidate),
        whole=kinds <= {"int", "bool"},
        sums_rows=kinds == {"float"},
        step=step,
        window=length // step * step,
        sampled=sampled,
        full=full,
    )


def length_for(*types: np.dtype) -> int:
    """Elements of 12 MiB."""
    return WINDOW_BYTES // max(4, *(dtype.itemsize for dtype in types))


def windows_of(size: int, length: int) -> list[tuple[int, int]]:
    """Return the bounds of consecutive windows of `length` elements."""
    return [(start, min(start + length, size)) for start in range(0, size, length)]


def stretches_of(size: int, window: int, step: int) -> list[tuple[int, int]]:
    """Return the bounds of the ranges that are accumulated separately, each a multiple of `step` elements.

    The first are long, since each has a fixed cost; the last are short, so that all threads finish at the same time.
    """
    least = -(-window // _LEAST_SHARE)
    found, start = [], 0
    while start < size:
        length = min(max((size - start) // _SHARE, least), window * _WINDOWS)
        found.append((start, min(start + -(-length // step) * step, size)))
        start = found[-1][1]
    return found
