"""Axes in another order, flattened, unflattened; and values repeated along a new one, as kv heads are."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from firstdiff.align.notation import Shape
from firstdiff.align.prechecks import has_duplicates
from firstdiff.align.sampling import Sight, noises
from firstdiff.align.strategy import Prepared, Strategy, same_size


def _as_they_are(_sight: Sight) -> Iterable[Prepared]:
    yield Prepared()


def _if_repeated(sight: Sight) -> Iterable[Prepared]:
    larger = max((sight.reference, sight.candidate), key=lambda tensor: tensor.size)
    own_noise = noises(sight.reference_sample, larger.dtype)[0]
    if has_duplicates(larger, own_noise):
        yield Prepared()


def _whole_multiple(reference: Shape, candidate: Shape) -> bool:
    small, large = sorted((prod(reference), prod(candidate)))
    return 1 < small < large and large % small == 0


ORDER = Strategy("axis order, flatten and unflatten", same_size, _as_they_are, cost=0)
REPEAT = Strategy("repeated heads", _whole_multiple, _if_repeated, cost=10)
