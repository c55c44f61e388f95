"""A leading axis of ranks, each of which holds a share of a sum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from firstdiff.align.notation import Shape
from firstdiff.align.sampling import Sight
from firstdiff.align.steps_join import Sum, Unstack
from firstdiff.align.strategy import Prepared, Strategy


def _has_ranks(whole: Shape, parts: Shape) -> bool:
    """Whether the first axis of `parts` holds as many tensors of the size of the whole."""
    return bool(parts) and prod(parts) == prod(whole) * parts[0] > prod(whole)


def _supports(reference: Shape, candidate: Shape) -> bool:
    return _has_ranks(reference, candidate) or _has_ranks(candidate, reference)


def _prepare(sight: Sight) -> Iterable[Prepared]:
    added = Prepared(cause="layout.shard", cost=2)
    if _has_ranks(sight.reference.shape, sight.candidate.shape):
        yield replace(added, candidate=(Unstack(0), Sum()))
    else:
        yield replace(added, reference=(Unstack(0), Sum()))


SUM = Strategy("partial sums along the first axis", _supports, _prepare, cost=30, moves_only=False)
