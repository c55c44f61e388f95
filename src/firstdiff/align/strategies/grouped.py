"""q, k and v fused group by group, as grouped-query attention does, or one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from firstdiff.align.sampling import Sight
from firstdiff.align.steps_axis import Ungroup
from firstdiff.align.strategy import Prepared, Strategy, same_size
from firstdiff.align.stride_search import divisors

_MOST_GROUPS = 128


def _prepare(sight: Sight) -> Iterable[Prepared]:
    if not sight.ends_agree():
        return
    for axis, length in enumerate(sight.candidate.shape):
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


GROUPED = Strategy("grouped q, k, v", same_size, _prepare, cost=40)
