"""One side holds a part of the other: a shard, a rank, a padded or truncated axis."""

from __future__ import annotations

from collections.abc import Iterable
from math import log, prod
from typing import NamedTuple

import numpy as np

from firstdiff.align.arrangement import arrangement_of
from firstdiff.align.notation import Shape
from firstdiff.align.recipe import AnyStep
from firstdiff.align.sampling import Sight
from firstdiff.align.steps import Crop
from firstdiff.align.strategy import Prepared, Strategy, same_size
from firstdiff.align.stride_search import Digit, divisors

_MOST_STARTS = 16
_MOST_PLACES = 1 << 16


class Cut(NamedTuple):
    """Keep `kept` elements along an axis of a tensor that is read in `shape`; `twist` says how unusual that is."""

    twist: int
    rows: int
    shape: Shape
    axis: int
    kept: int

    @property
    def length(self) -> int:
        return self.shape[self.axis]

    def shows_in(self, part: Shape) -> bool:
        """Whether the shape of the part tells that it was cut like this."""
        return not self.twist or {self.kept, self.rows} - {1} <= set(part)

    def is_shard(self, start: int) -> bool:
        return self.length % self.kept == 0 and start % self.kept == 0

    def is_plain(self, start: int) -> bool:
        return self.is_shard(start) or start in (0, self.length - self.kept)

    def steps(self, shape: Shape, start: int) -> tuple[AnyStep, ...]:
        read = arrangement_of((Digit(prod(shape), 1),), self.shape, shape).steps
        return (*read, Crop.along(self.axis, start, start + self.kept))


def _prepare(sight: Sight) -> Iterable[Prepared]:
    reference_is_larger = sight.reference.size > sight.candidate.size
    view = sight if reference_is_larger else sight.mirrored()
    for cut in _cuts(view.reference.shape, view.candidate.size):
        if view.level.lenient and not cut.shows_in(view.candidate.shape):
            continue
        for start in _starts(view, cut):
            steps = cut.steps(view.reference.shape, start)
            yield Prepared(
                reference=steps if reference_is_larger else (),
                candidate=() if reference_is_larger else steps,
                cause="layout.shard" if cut.is_shard(start) else "layout.pad",
                forced=cut.shows_in(view.candidate.shape),
                cost=1 + 2 * cut.twist + 2 * (not cut.is_plain(start)),
                luck=0.0 if cut.is_plain(start) else log(cut.length - cut.kept),
            )


def _cuts(shape: Shape, kept_size: int) -> list[Cut]:
    """Every way to keep that many elements by shortening one axis, a part of one, or several read as one."""
    size, found = prod(shape), []
    for first in range(len(shape)):
        for end in range(first + 1, len(shape) + 1):
            length = prod(shape[first:end])
            for rows in divisors(length)[:-1]:
                column = length // rows
                if column * kept_size % size == 0 and (end - first == 1 or min(shape[first], shape[end - 1]) > 1):
                    read = (*shape[:first], *((rows,) if rows > 1 else ()), column, *shape[end:])
                    twist = end - first - 1 + (rows > 1)
                    found.append(Cut(twist, rows, read, first + (rows > 1), column * kept_size // size))
    return sorted(found)


def _starts(sight: Sight, cut: Cut) -> list[int]:
    """Where in the reference the candidate may begin: its ends must be found there, one of them at a likely place."""
    stride = prod(cut.shape[cut.axis + 1 :])
    free = cut.length - cut.kept
    starts = np.arange(free + 1) if free < _MOST_PLACES else np.unique([0, free, *range(0, free, cut.kept)])
    ends = sight.candidate_at(np.array([0, sight.candidate.size - 1]))
    firsts = sight.same(sight.reference_at(starts * stride), ends[0])
    lasts = sight.same(sight.reference_at(sight.reference.size - 1 - (free - starts) * stride), ends[1])
    both = [int(start) for start in starts[firsts & lasts]]
    one = [int(start) for start in starts[firsts ^ lasts] if cut.is_plain(int(start))]
    return [*sorted(both, key=lambda start: not cut.is_plain(start)), *one][: _MOST_STARTS >> cut.twist]


def _other_size(reference: Shape, candidate: Shape) -> bool:
    return not same_size(reference, candidate)


PART = Strategy("a part of one axis", _other_size, _prepare, cost=20)
