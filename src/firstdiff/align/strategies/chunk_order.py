"""Runs of an axis in another order: swapped halves, k before q, heads shuffled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import permutations
from math import lgamma, prod

import numpy as np

from firstdiff.align.notation import Shape
from firstdiff.align.sampling import Sight, scattered
from firstdiff.align.steps_axis import Chunks, order_cause
from firstdiff.align.strategy import Prepared, Strategy, same_size
from firstdiff.align.stride_search import divisors

_MOST_CHUNKS = 64
_LEAST_CHUNK = 8  # elements; fewer would make any shuffle a change of layout
_TESTS = 16
_ENOUGH = 0.75


def _prepare(sight: Sight) -> Iterable[Prepared]:
    if sight.reference.shape == sight.candidate.shape:
        yield from _matched(sight)
        yield from _guessed(sight, (2,))
    else:
        yield from _guessed(sight, (2, 3))


def _matched(sight: Sight) -> Iterator[Prepared]:
    """Shapes are equal: each chunk of the reference is looked for among those of the candidate."""
    shape = sight.reference.shape
    for axis, length in enumerate(shape):
        for count in divisors(length)[1:]:
            if count > _MOST_CHUNKS or sight.reference.size // count < _LEAST_CHUNK:
                break
            order = _find_order(sight, prod(shape[axis + 1 :]), length, count)
            if order and order != tuple(range(count)):
                yield Prepared(
                    candidate=(Chunks(axis, order),),
                    cause=order_cause(order),
                    forced=False,
                    settled=True,
                    cost=8 + count.bit_length(),
                    luck=lgamma(count + 1),
                )
                break


def _find_order(sight: Sight, inner: int, length: int, count: int) -> tuple[int, ...] | None:
    chunk = length // count
    outer = sight.reference.size // (length * inner)
    places = _places_in_chunk(outer, length, chunk, inner)
    candidates = sight.candidate_at(places + np.arange(count)[:, np.newaxis] * chunk * inner)
    order: list[int] = []
    for number in range(count):
        reference = sight.reference_at(places + number * chunk * inner)
        telling = sight.telling(reference, candidates)
        agreed = (sight.same(reference, candidates) & telling).sum(axis=1)
        fitting = agreed >= _ENOUGH * np.maximum(telling.sum(axis=1), 1)
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


def _guessed(sight: Sight, counts: tuple[int, ...]) -> Iterator[Prepared]:
    """Axes are in another order too: only few chunks are worth a search of the axes for each of their orders."""
    for count in counts:
        for order in list(permutations(range(count)))[1:]:
            back = tuple(order.index(number) for number in range(count))
            kind = Prepared(cause=order_cause(order), forced=False, cost=8 + count)
            for axis in _divisible(sight.candidate.shape, count):
                yield replace(kind, candidate=(Chunks(axis, order),))
            for axis in _divisible(sight.reference.shape, count):
                yield replace(kind, reference=(Chunks(axis, back),), finish=(Chunks(axis, order),))


def _divisible(shape: Shape, count: int) -> list[int]:
    return [axis for axis, length in enumerate(shape) if length % count == 0]


CHUNKS = Strategy("chunk order", same_size, _prepare, cost=50)
