"""Find and name a permutation of the indices of one axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from firstdiff.align.stride_search import divisors
from firstdiff.diagnose.values.lines import Lines

_LEFT = 0.3
_MOST_CHUNKS = 64
_LONGEST_MATCHED = 2048
_LONGEST_HEAD = 512
_CLEARLY = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """Index i of the candidate is index `taken[i]` of the reference.

    words: what that is, to follow "the candidate has"
    chosen: how many choices went into it
    """

    cause: str
    taken: np.ndarray
    words: str
    chosen: int


def order_along(lines: Lines, *, any_order: bool = False) -> Order | None:
    """The plainest order of an axis that accounts for most of the difference; None if there is none.

    any_order: look for orders without a rule too
    """
    for family in (_reversed, _cut_twice, _chunked, *([_matched] if any_order else [])):
        found = [(lines.left_by(order.taken), order) for order in family(lines)]
        fitting = [entry for entry in found if entry[0] < _LEFT]
        if fitting:
            best = min(left for left, _ in fitting)
            return next(order for left, order in fitting if left <= best / _CLEARLY + 1e-9)
    return None


def _reversed(lines: Lines) -> Iterator[Order]:
    if len(lines) > 2:
        yield Order("layout.reversed", np.arange(len(lines))[::-1], "the axis backwards", 1)


def _cut_twice(lines: Lines) -> Iterator[Order]:
    """The axis as `p a b q`, with a and b exchanged; halves and thirds in another order."""
    length = len(lines)
    plain = np.arange(length)
    for count in (2, 3):
        if length % count == 0 and length > count:
            for order in list(permutations(range(count)))[1:]:
                if lines.axis == lines.ndim - 1 or not _is_rolled(np.array(order)):
                    yield _of_chunks(order, length)
    for inner in divisors(length):
        for b in divisors(length // inner)[1:]:
            for a in divisors(length // inner // b)[1:]:
                taken = plain.reshape(-1, a, b, inner).swapaxes(1, 2).reshape(-1)
                yield Order(_name(lines, a, b, inner), taken, _words(a, b, inner, length), 2)


def _name(lines: Lines, a: int, b: int, inner: int) -> str:
    if 3 in (a, b):
        return "layout.qkv_order"
    if inner == 1 and 2 in (a, b) and lines.axis == lines.ndim - 1:
        return "layout.rope_interleave" if a * b <= _LONGEST_HEAD else "layout.interleave"
    return "layout.head_order"


def _words(a: int, b: int, inner: int, length: int) -> str:
    outer = length // (a * b * inner)
    before, after = (f"{outer} " if outer > 1 else ""), (f" {inner}" if inner > 1 else "")
    return f"the axis cut into {before}x {a} x {b}{after} with {a} and {b} exchanged".replace("into x", "into")


def _chunked(lines: Lines) -> Iterator[Order]:
    """Equal chunks, each looked for among those of the other side."""
    length = len(lines)
    for count in divisors(length)[1:]:
        if count > _MOST_CHUNKS:
            return
        cut = lines.reference.reshape(count, -1), lines.candidate.reshape(count, -1)
        order = _nearest(*cut)
        if order is not None and (count < length or _are_heads(lines)):
            yield _of_chunks(tuple(int(at) for at in order), length)


def _matched(lines: Lines) -> Iterator[Order]:
    """Every index looked for by itself."""
    if not 3 < len(lines) <= _LONGEST_MATCHED or lines.reference.shape[1] < 2:
        return
    order = _nearest(lines.reference, lines.candidate)
    if order is not None:
        yield Order("layout.permuted", order, "its indices in another order", len(lines))


def _of_chunks(order: tuple[int, ...], length: int) -> Order:
    count = len(order)
    taken = np.arange(length).reshape(count, -1)[list(order)].reshape(-1)
    if count == 2:
        return Order("layout.chunk_swap", taken, "its halves swapped", 1)
    if count == 3:
        return Order("layout.qkv_order", taken, f"its thirds in the order {_listed(order)}", 1)
    moved = [at for at, chunk in enumerate(order) if at != chunk]
    which = f"chunks {_listed(tuple(moved))} exchanged" if len(moved) == 2 else f"the order {_listed(order)}"
    return Order("layout.head_order", taken, f"its {count} chunks in another order ({which})", len(moved))


def _nearest(reference: np.ndarray, candidate: np.ndarray) -> np.ndarray | None:
    """For each row of the candidate the nearest of the reference; None where that is no order, or changes nothing."""
    apart = (
        np.sum(candidate * candidate, axis=1)[:, None]
        - 2 * candidate @ reference.T
        + np.sum(reference * reference, axis=1)[None, :]
    )
    order = np.argmin(apart, axis=1)
    every = np.arange(len(reference))
    if not np.array_equal(np.sort(order), every):
        return None
    return None if _is_rolled(order) or np.array_equal(order, every) else order


def _is_rolled(order: np.ndarray) -> bool:
    """True if an order of more than two indices is a roll."""
    steps = (order - np.arange(order.size)) % order.size
    return order.size > 2 and bool((steps == steps[0]).all())


def _are_heads(lines: Lines) -> bool:
    """True if the axis is an inner one of four or more, where heads are."""
    return lines.ndim >= 4 and 0 < lines.axis < lines.ndim - 1


def _listed(order: tuple[int, ...]) -> str:
    shown = " ".join(map(str, order[:12]))
    return f"{shown} …" if len(order) > 12 else shown
