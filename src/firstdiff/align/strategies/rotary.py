"""Rotary pairs interleaved or in halves, where only a part of each head rotates."""

from __future__ import annotations

from collections.abc import Iterable

from firstdiff.align.sampling import Sight
from firstdiff.align.steps_axis import Rope
from firstdiff.align.strategy import Prepared, Strategy, same_size
from firstdiff.align.stride_search import divisors

_LONGEST_HEAD = 512
_SHARES = ((1, 2), (1, 4), (3, 4), (2, 5), (1, 3), (2, 3))


def _prepare(sight: Sight) -> Iterable[Prepared]:
    """The whole head is no case for this: its axes can be told apart, and axis order finds them."""
    if not sight.ends_agree():
        return
    shape = sight.candidate.shape
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


ROTARY = Strategy("partial rotary", same_size, _prepare, cost=60)
