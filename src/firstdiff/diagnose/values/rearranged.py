"""Search once for another layout of the same values; the hypothesis of its kind reports it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from firstdiff.align.stride_search import divisors
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.diagnose.values.lines import Lines
from firstdiff.diagnose.values.orders import order_along
from firstdiff.diagnose.values.regroupings import regrouping_of
from firstdiff.diagnose.values.sides import Sides, axis_words, views
from firstdiff.locate.where import Form, Pattern

_SLACK = 0.08
_LEAST = 4


class Rearranged(Hypothesis):
    """The values are those of the reference in another layout; subclasses say which."""

    def test(self, case: Case) -> Iterator[Explanation]:
        found = case.shared.get("rearranged")
        if found is None:
            found = case.shared["rearranged"] = _searched(case)
        yield from (one for one in found if one.cause == self.code)


def _searched(case: Case) -> list[Explanation]:
    """In all of it, then in the part that is wrong; orders without a rule only where no rule is found."""
    seen = [sides for sides in _views(case) if sides.reference.size >= _LEAST and _same_values(sides)]
    for any_order in (False, True):
        for sides in seen:
            found = [one for axis in reversed(range(sides.ndim)) for one in _reordered(sides, axis, any_order)]
            found = found or ([] if any_order else list(_regrouped(sides)))
            if found:
                return found
    return []


def _views(case: Case) -> Iterator[Sides]:
    """All of a case, the part that is wrong, and the chunk it lies in: an order may leave the ends where they are."""
    yield from views(case)
    whole = Sides.of(case)
    chunks = {axis: _chunk_around(pattern) for axis, pattern in whole.part.patterns.items()}
    grown = {axis: chunk for axis, chunk in chunks.items() if len(chunk.indices) < chunk.length}
    if grown and grown != whole.part.patterns:
        yield whole.cut_to(grown)


def _chunk_around(pattern: Pattern) -> Pattern:
    """The shortest of the equal chunks of an axis that holds a run of indices."""
    first, last = pattern.indices[0], pattern.indices[-1]
    if last - first + 1 > len(pattern.indices):
        return pattern
    size = next(size for size in divisors(pattern.length) if first // size == last // size)
    start = first // size * size
    form: Form = "below" if start == 0 else "from" if start + size == pattern.length else "block"
    return Pattern(form, tuple(range(start, start + size)), pattern.share, pattern.length)


def _reordered(sides: Sides, axis: int, any_order: bool) -> Iterator[Explanation]:
    order = order_along(Lines.along(sides, axis), any_order=any_order) if sides.shape[axis] > 1 else None
    if order is not None:
        where = axis_words(axis, sides.ndim)
        yield from sides.told(
            order.cause,
            sides.reference.take(order.taken, axis=axis),
            f"along {where} the candidate has {order.words}",
            f"bring {where} into the reference's order",
            chosen=order.chosen,
            implies=("layout.permuted",),
        )


def _regrouped(sides: Sides) -> Iterator[Explanation]:
    found = regrouping_of(sides)
    if found is not None:
        yield from sides.told(
            found.cause,
            found.applied(sides.reference),
            f"the candidate is the reference rearranged by {found.words} and read in the same shape",
            "put the axes in the reference's order before the shape is changed",
            chosen=2,
        )


@np.errstate(all="ignore")
def _same_values(sides: Sides) -> bool:
    """A quick no: moving values about keeps their mean, spread and range."""
    reference, candidate = (np.abs(side[np.isfinite(side)]) for side in (sides.reference, sides.candidate))
    if reference.size != candidate.size or not reference.size:
        return False
    size = float(np.sqrt(np.mean(reference**2)))
    figures = [(side.mean(), np.sqrt(np.mean(side**2)), side.max() / 2) for side in (reference, candidate)]
    return bool(size) and all(abs(one - other) <= _SLACK * size for one, other in zip(*figures, strict=True))
