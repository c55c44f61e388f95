"""How a tensor or a pair is cut up: fixed by size and types alone, so that any number of threads gives one result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from firstdiff import dtypes
from firstdiff.measure.grid import Grid, coarser_grid
from firstdiff.measure.promote import Domain, domain_of, fits_float32

BLOCK = 1 << 15
NARROW_BLOCK = 1 << 16
WINDOW_BYTES = 12 << 20
_SHARE, _LEAST_SHARE, _WINDOWS = 4, 4, 8
SMALL = 1 << 16

PERIOD = 1 << 16
PIECE = 1 << 10
CELLS_PIECE = 1 << 7  # the part of a piece that the cells are taken from
SAMPLE_STRIDE = 11


def window_length(*types: np.dtype) -> int:
    """Elements of a window: 12 MiB of the wider side, or of float32 where that is wider."""
    return WINDOW_BYTES // max(4, *(dtype.itemsize for dtype in types))


def windows_of(size: int, length: int) -> list[tuple[int, int]]:
    """Where windows of a length begin and end."""
    return [(start, min(start + length, size)) for start in range(0, size, length)]


def stretches_of(size: int, window: int, piece: int = 0) -> list[tuple[int, int]]:
    """Where stretches begin and end, each gathered as one, window after window.

    The first are long, for each begins anew; the last are short, for threads share them out and should end together,
    but no shorter than a piece.
    """
    least = max(window // _LEAST_SHARE, piece)
    found, start = [], 0
    while start < size:
        length = min(max((size - start) // _SHARE, least), window * _WINDOWS)
        found.append((start, min(start + -(-length // PERIOD) * PERIOD, size)))
        start = found[-1][1]
    return found


@dataclass(frozen=True, slots=True)
class PairPlan:
    """What measuring a pair takes besides the data.

    grid: the spacing that ULPs are counted in; None for whole numbers
    whole: both sides are whole numbers
    sampled: it is large enough for some figures to be taken from a sample
    full: all figures but the cells are taken from every element all the same
    narrow: sums may be taken in float32 as far as they keep six digits
    """

    domain: Domain
    grid: Grid | None
    whole: bool
    sampled: bool
    full: bool
    narrow: bool

    def pieces(self, start: int, stop: int) -> Iterator[slice]:
        """The parts of a block that belong to the sample, counted from its start."""
        if not self.sampled:
            yield slice(0, stop - start)
            return
        for period in range(start // PERIOD, (stop - 1) // PERIOD + 1):
            first = sampled_piece(period)
            begin, end = max(first, start), min(first + PIECE, stop)
            if begin < end:
                yield slice(begin - start, end - start)


def sampled_piece(period: int) -> int:
    """Where the piece begins that is sampled of a period; its place moves, lest it keep to a few channels."""
    return period * PERIOD + period * SAMPLE_STRIDE * PIECE % PERIOD


@cache
def plan_of(reference: np.dtype, candidate: np.dtype, *, sampled: bool, full: bool) -> PairPlan:
    kinds = {dtypes.kind_of(reference), dtypes.kind_of(candidate)}
    return PairPlan(
        domain=domain_of(reference, candidate),
        grid=coarser_grid(reference, candidate),
        whole=kinds <= {"int", "bool"},
        sampled=sampled,
        full=full,
        narrow=sampled and kinds == {"float"} and fits_float32(reference) and fits_float32(candidate),
    )
