"""Strategies of the layout search: each prepares a pair so that only the order of axes is left to find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import lgamma, log, prod
from typing import NamedTuple

import numpy as np

from firstdiff import plugins
from firstdiff.align.arrangement import arrangement_of
from firstdiff.align.notation import Shape
from firstdiff.align.prechecks import has_duplicates
from firstdiff.align.recipe import AnyStep
from firstdiff.align.sampling import SampledPair, noises, scattered
from firstdiff.align.steps import Crop
from firstdiff.align.steps_axis import Chunks, Rope, Ungroup, order_cause
from firstdiff.align.steps_join import Sum, Unstack
from firstdiff.align.stride_search import Digit, divisors


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """One thing to try before the order of axes is searched.

    reference, candidate: steps for each side
    finish: steps for the candidate after its axes are in order; they undo those of the reference, which then has none
    cause: what to call it where it should not be there
    forced: whether the shapes alone call for it
    settled: whether equal shapes then mean equal order, so that axes need not be searched
    cost: how unusual it is; of two that fit, the lower one is the plainer
    log_attempts: logarithm of the number of alternatives it was picked from by the same values
    """

    reference: tuple[AnyStep, ...] = ()
    candidate: tuple[AnyStep, ...] = ()
    finish: tuple[AnyStep, ...] = ()
    cause: str | None = None
    forced: bool = True
    settled: bool = False
    cost: int = 0
    log_attempts: float = 0.0


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to relate two layouts, and one entry of the hook `firstdiff.alignment`.

    name: what the list of things tried calls it
    supports: whether two shapes can be related this way at all: those of the reference and of the candidate
    prepare: what to try for the two tensors of a pair (lazily: the first that fits ends the search)
    cost: strategies of lower cost come first; 0 to 99, the built-in ones are multiples of 10
    moves_only: whether it leaves every value as it is, so that it is not tried where the two sides share too few
    """

    name: str
    supports: Callable[[Shape, Shape], bool]
    prepare: Callable[[SampledPair], Iterable[Prepared]]
    cost: int
    moves_only: bool = True

    @property
    def unusual(self) -> bool:
        """True if it is tried only on informative values, and stops at the first fit."""
        return self.cost >= 40


def same_size(reference: Shape, candidate: Shape) -> bool:
    return prod(reference) == prod(candidate)


def in_order(strategies: Sequence[Strategy] | None) -> list[Strategy]:
    """Those given, else those of the hook, the plainest first."""
    table: Sequence[Strategy] = plugins.loaded("alignment") if strategies is None else strategies
    return sorted(table, key=lambda strategy: strategy.cost)


def _as_they_are(_pair: SampledPair) -> Iterable[Prepared]:
    yield Prepared()


def _if_repeated(pair: SampledPair) -> Iterable[Prepared]:
    larger = max((pair.reference, pair.candidate), key=lambda tensor: tensor.size)
    own_noise = noises(pair.reference_sample, larger.dtype)[0]
    if has_duplicates(larger, own_noise):
        yield Prepared()


def _whole_multiple(reference: Shape, candidate: Shape) -> bool:
    small, large = sorted((prod(reference), prod(candidate)))
    return 1 < small < large and large % small == 0


ORDER = Strategy("axis order, flatten and unflatten", same_size, _as_they_are, cost=0)
REPEAT = Strategy("repeated heads", _whole_multiple, _if_repeated, cost=10)


_MOST_CHUNKS = 64
_LEAST_CHUNK = 8  # elements; fewer would make any shuffle a change of layout
_TESTS = 16
_ENOUGH = 0.75


def _chunk_orders(pair: SampledPair) -> Iterable[Prepared]:
    if pair.reference.shape == pair.candidate.shape:
        yield from _matched(pair)
        yield from _guessed(pair, (2,))
    else:
        yield from _guessed(pair, (2, 3))


def _matched(pair: SampledPair) -> Iterator[Prepared]:
    """Shapes are equal: each chunk of the reference is looked for among those of the candidate."""
    shape = pair.reference.shape
    for axis, length in enumerate(shape):
        for count in divisors(length)[1:]:
            if count > _MOST_CHUNKS or pair.reference.size // count < _LEAST_CHUNK:
                break
            order = _find_order(pair, prod(shape[axis + 1 :]), length, count)
            if order and order != tuple(range(count)):
                yield Prepared(
                    candidate=(Chunks(axis, order),),
                    cause=order_cause(order),
                    forced=False,
                    settled=True,
                    cost=8 + count.bit_length(),
                    log_attempts=lgamma(count + 1),
                )
                break


def _find_order(pair: SampledPair, inner: int, length: int, count: int) -> tuple[int, ...] | None:
    chunk = length // count
    outer = pair.reference.size // (length * inner)
    places = _places_in_chunk(outer, length, chunk, inner)
    candidates = pair.candidate_at(places + np.arange(count)[:, np.newaxis] * chunk * inner)
    order: list[int] = []
    for number in range(count):
        reference = pair.reference_at(places + number * chunk * inner)
        informative = pair.informative(reference, candidates)
        agreed = (pair.same(reference, candidates) & informative).sum(axis=1)
        fitting = agreed >= _ENOUGH * np.maximum(informative.sum(axis=1), 1)
        fitting[order] = False
        if not fitting.any():
            return None
        order.append(int(np.argmax(np.where(fitting, agreed, -1))))
    return tuple(order)


def _places_in_chunk(outer: int, length: int, chunk: int, inner: int) -> np.ndarray:
    """Positions inside the first chunk, spread over everything around it."""
    draws = scattered(_TESTS, 3), scattered(_TESTS, 4), scattered(_TESTS, 5)
    high, along, low = (
        (draw % np.uint64(size)).astype(np.int64) for draw, size in zip(draws, (outer, chunk, inner), strict=True)
    )
    return (high * length + along) * inner + low


def _guessed(pair: SampledPair, counts: tuple[int, ...]) -> Iterator[Prepared]:
    """Axes are in another order too: only few chunks are worth a search of the axes for each of their orders."""
    for count in counts:
        for order in list(permutations(range(count)))[1:]:
            back = tuple(order.index(number) for number in range(count))
            kind = Prepared(cause=order_cause(order), forced=False, cost=8 + count)
            for axis in _divisible(pair.candidate.shape, count):
                yield replace(kind, candidate=(Chunks(axis, order),))
            for axis in _divisible(pair.reference.shape, count):
                yield replace(kind, reference=(Chunks(axis, back),), finish=(Chunks(axis, order),))


def _divisible(shape: Shape, count: int) -> list[int]:
    return [axis for axis, length in enumerate(shape) if length % count == 0]


CHUNKS = Strategy("chunk order", same_size, _chunk_orders, cost=50)


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
        """True if the shape of the part suggests this cut."""
        return not self.twist or {self.kept, self.rows} - {1} <= set(part)

    def is_shard(self, start: int) -> bool:
        return self.length % self.kept == 0 and start % self.kept == 0

    def is_plain(self, start: int) -> bool:
        return self.is_shard(start) or start in (0, self.length - self.kept)

    def steps(self, shape: Shape, start: int) -> tuple[AnyStep, ...]:
        read = arrangement_of((Digit(prod(shape), 1),), self.shape, shape).steps
        return (*read, Crop.along(self.axis, start, start + self.kept))


def _parts(pair: SampledPair) -> Iterable[Prepared]:
    reference_is_larger = pair.reference.size > pair.candidate.size
    view = pair if reference_is_larger else pair.mirrored()
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
                log_attempts=0.0 if cut.is_plain(start) else log(cut.length - cut.kept),
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


def _starts(pair: SampledPair, cut: Cut) -> list[int]:
    """List where in the reference the candidate may begin: both its ends agree there, or one at a shard's border."""
    stride = prod(cut.shape[cut.axis + 1 :])
    free = cut.length - cut.kept
    starts = np.arange(free + 1) if free < _MOST_PLACES else np.unique([0, free, *range(0, free, cut.kept)])
    ends = pair.candidate_at(np.array([0, pair.candidate.size - 1]))
    firsts = pair.same(pair.reference_at(starts * stride), ends[0])
    lasts = pair.same(pair.reference_at(pair.reference.size - 1 - (free - starts) * stride), ends[1])
    both = [int(start) for start in starts[firsts & lasts]]
    one = [int(start) for start in starts[firsts ^ lasts] if cut.is_plain(int(start))]
    return [*sorted(both, key=lambda start: not cut.is_plain(start)), *one][: _MOST_STARTS >> cut.twist]


def _other_size(reference: Shape, candidate: Shape) -> bool:
    return not same_size(reference, candidate)


PART = Strategy("a part of one axis", _other_size, _parts, cost=20)


_MOST_GROUPS = 128


def _grouped_heads(pair: SampledPair) -> Iterable[Prepared]:
    if not pair.ends_agree():
        return
    for axis, length in enumerate(pair.candidate.shape):
        for groups, parts in _groupings(length):
            for backwards in (False, True):
                step = Ungroup(axis, groups, parts, backwards)
                yield Prepared(candidate=(step,), cause="layout.qkv_order", forced=False, settled=True, cost=11)


def _groupings(length: int) -> Iterator[tuple[int, tuple[int, int, int]]]:
    """Groups of some query heads, one key head and one value head; one query head is plain axis order."""
    for groups in divisors(length)[1:]:
        if groups > _MOST_GROUPS:
            return
        width = length // groups
        for heads in divisors(width):
            if heads >= 4 and width // heads > 1:
                head = width // heads
                yield groups, ((heads - 2) * head, head, head)


GROUPED = Strategy("grouped q, k, v", same_size, _grouped_heads, cost=40)


def _has_ranks(whole: Shape, parts: Shape) -> bool:
    """True if the first axis of `parts` indexes tensors of the size of the whole."""
    return bool(parts) and prod(parts) == prod(whole) * parts[0] > prod(whole)


def _has_ranks_on_one_side(reference: Shape, candidate: Shape) -> bool:
    return _has_ranks(reference, candidate) or _has_ranks(candidate, reference)


def _partial_sums(pair: SampledPair) -> Iterable[Prepared]:
    added = Prepared(cause="layout.shard", cost=2)
    if _has_ranks(pair.reference.shape, pair.candidate.shape):
        yield replace(added, candidate=(Unstack(0), Sum()))
    else:
        yield replace(added, reference=(Unstack(0), Sum()))


SUM = Strategy("partial sums along the first axis", _has_ranks_on_one_side, _partial_sums, cost=30, moves_only=False)


_LONGEST_HEAD = 512
_SHARES = ((1, 2), (1, 4), (3, 4), (2, 5), (1, 3), (2, 3))


def _rotary_pairs(pair: SampledPair) -> Iterable[Prepared]:
    """The whole head is no case for this: its axes can be told apart, and axis order finds them."""
    if not pair.ends_agree():
        return
    shape = pair.candidate.shape
    for axis in sorted(range(len(shape)), key=lambda axis: axis != len(shape) - 1):
        for head in divisors(shape[axis])[::-1]:
            for over, under in _SHARES:
                rotary = head * over // under
                if head > _LONGEST_HEAD or head * over % under or rotary % 2 or rotary < 4:
                    continue
                for to_half in (True, False):
                    step = Rope(axis, head, rotary, to_half)
                    yield Prepared(
                        candidate=(step,), cause="layout.rope_interleave", forced=False, settled=True, cost=12
                    )


ROTARY = Strategy("partial rotary", same_size, _rotary_pairs, cost=60)
