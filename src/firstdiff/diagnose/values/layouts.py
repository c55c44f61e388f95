"""Hypotheses: the same values in another layout, one for each kind of layout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import Final

import numpy as np

from firstdiff.align.stride_search import divisors
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.diagnose.values.axis_order import Lines, order_along
from firstdiff.diagnose.values.sides import Sides, axis_words, typical, views
from firstdiff.locate.where import Form, Pattern

_SAMPLE = 512
_MOST_LEFT = 0.3
_MOST_AXES = 5
_MOST_CUTS = 12
_LETTERS = "abcdefgh"


@dataclass(frozen=True, slots=True)
class Regrouping:
    """Reshape the reference to `lengths`, transpose to `order`, and reshape back."""

    cause: str
    lengths: tuple[int, ...]
    order: tuple[int, ...]

    def applied(self, values: np.ndarray) -> np.ndarray:
        return values.reshape(self.lengths).transpose(self.order).reshape(values.shape)

    @property
    def words(self) -> str:
        names = [f"{_LETTERS[axis]}={length}" for axis, length in enumerate(self.lengths)]
        return f"{' '.join(names)} -> {' '.join(_LETTERS[axis] for axis in self.order)}"


def regrouping_of(sides: Sides) -> Regrouping | None:
    """Find the simplest regrouping that explains most of the difference; None if there is none."""
    size = sides.reference.size
    flat = np.unique((np.arange(_SAMPLE) * size // _SAMPLE + np.arange(_SAMPLE) * 7919) % size)
    reference, candidate = sides.reference.reshape(-1), sides.candidate.reshape(-1)[flat]
    before = min(typical(candidate - reference[flat]), typical(candidate - candidate.mean()))
    if not 0 < before < np.inf:
        return None
    for one in _regroupings(sides.shape):
        if typical(candidate - reference[_source_indices(one, flat)]) < _MOST_LEFT * before:
            return one
    return None


def _regroupings(shape: tuple[int, ...]) -> Iterator[Regrouping]:
    """Yield transpositions of whole axes, then of axes with one of them cut in two."""
    axes = tuple(length for length in shape if length > 1)
    if len(axes) <= _MOST_AXES:
        yield from _axis_orders(axes, axes)
    if len(axes) >= _MOST_AXES or len(axes) < 2:
        return
    for at in reversed(range(len(axes))):
        for inner in _inner_lengths(axes[at]):
            cut = (*axes[:at], axes[at] // inner, inner, *axes[at + 1 :])
            yield from _axis_orders(cut, axes)


def _axis_orders(lengths: tuple[int, ...], shape: tuple[int, ...]) -> Iterator[Regrouping]:
    for order in sorted(permutations(range(len(lengths))), key=_count_moved)[1:]:
        plain = len(lengths) == len(shape) and tuple(lengths[axis] for axis in order) == shape
        yield Regrouping("layout.transpose" if plain else "layout.reshape", lengths, order)


def _count_moved(order: tuple[int, ...]) -> int:
    return sum(axis != at for at, axis in enumerate(order))


def _inner_lengths(length: int) -> tuple[int, ...]:
    return divisors(length)[1:-1][:_MOST_CUTS]


def _source_indices(one: Regrouping, flat: np.ndarray) -> np.ndarray:
    """Return the flat index in the reference of each of the candidate's flat indices."""
    strides = [prod(one.lengths[axis + 1 :]) for axis in range(len(one.lengths))]
    rest, found = flat, np.zeros_like(flat)
    for axis in reversed(one.order):
        rest, at = np.divmod(rest, one.lengths[axis])
        found = found + at * strides[axis]
    return found


_SLACK = 0.08
_FEWEST_VALUES = 4


class Rearranged(Hypothesis):
    """The values are those of the reference in another layout; subclasses say which."""

    def test(self, case: Case) -> Iterator[Explanation]:
        yield from (one for one in case.derived(_explanations) if one.cause == self.code)


def _explanations(case: Case) -> list[Explanation]:
    """Search the whole case, then its wrong part; arbitrary permutations only where nothing simpler fits."""
    seen = [sides for sides in _candidate_views(case) if sides.reference.size >= _FEWEST_VALUES and _same_values(sides)]
    for any_order in (False, True):
        for sides in seen:
            found = [one for axis in reversed(range(sides.ndim)) for one in _reordered(sides, axis, any_order)]
            found = found or ([] if any_order else list(_regrouped(sides)))
            if found:
                return found
    return []


def _candidate_views(case: Case) -> Iterator[Sides]:
    """Yield the whole case, its wrong part, and the chunk around that: a permutation may leave the ends in place."""
    yield from views(case)
    whole = Sides.of(case)
    chunks = {axis: _chunk_around(pattern) for axis, pattern in whole.part.patterns.items()}
    grown = {axis: chunk for axis, chunk in chunks.items() if len(chunk.indices) < chunk.length}
    if grown and grown != whole.part.patterns:
        yield whole.cut_to(grown)


def _chunk_around(pattern: Pattern) -> Pattern:
    """Return the shortest of the equal chunks of an axis that holds a run of indices."""
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
    """Cheap pre-check: a permutation keeps mean, spread and range."""
    reference, candidate = (np.abs(side[np.isfinite(side)]) for side in (sides.reference, sides.candidate))
    if reference.size != candidate.size or not reference.size:
        return False
    size = float(np.sqrt(np.mean(reference**2)))
    figures = [(side.mean(), np.sqrt(np.mean(side**2)), side.max() / 2) for side in (reference, candidate)]
    return bool(size) and all(abs(one - other) <= _SLACK * size for one, other in zip(*figures, strict=True))


class LayoutTranspose(Rearranged):
    """Axes are in another order.

    `[batch, token, channel]` on one side is `[batch, channel, token]` on the other, or a square matrix is transposed.

    Tested by every order of the axes. Permute the candidate's axes, or say `--accept-layout transpose`.
    """

    code = "layout.transpose"


class LayoutReshape(Rearranged):
    """The shape was changed where axes should have been exchanged, or the other way round.

    `view` reads numbers in the order they lie in memory: heads that were put in front of the tokens must be put back
    before they are merged, or everything lands in the wrong place while the shape is right.

    Tested by cutting each axis in two and trying every order of the parts. Permute before the shape is changed.
    """

    code = "layout.reshape"


class LayoutChunkSwap(Rearranged):
    """The halves of an axis are swapped.

    Gate and up, scale and shift, the real and the imaginary half, sine and cosine: two halves of one projection,
    taken in the other order.

    Tested along every axis. Exchange the two chunks.
    """

    code = "layout.chunk_swap"


class LayoutQkvOrder(Rearranged):
    """Query, key and value lie in another order in a fused projection.

    All q, all k, all v on one side; q, k and v of each head, or another order of the three, on the other.

    Tested by thirds in every order, and by a 3 exchanged with what it is cut by. Cut the projection as the reference
    does.
    """

    code = "layout.qkv_order"


class LayoutHeadOrder(Rearranged):
    """Heads, or other chunks of an axis, are in another order.

    Heads are permuted, merged across instead of along, or kv heads are tiled (`0 1 0 1`) where they should be repeated
    (`0 0 1 1`).

    Tested by looking for every chunk of the reference in the candidate, and by exchanging two factors of every axis.
    """

    code = "layout.head_order"


class LayoutRopeInterleave(Rearranged):
    """Rotary pairs are interleaved on one side and in halves on the other.

    A rotation takes the numbers of a head in pairs: neighbours (`0 1, 2 3, …`) or one of each half (`0 32, 1 33, …`).
    Weights for one give nonsense with the other, and every shape is right.

    Tested by a 2 exchanged with what it is cut by. Permute the q and k weights, or rotate as the reference does.
    """

    code = "layout.rope_interleave"


class LayoutInterleave(Rearranged):
    """Two halves of a long axis are interleaved on one side.

    Gate and up lie side by side on one side and alternate on the other.

    Tested by a 2 exchanged with what it is cut by.
    """

    code = "layout.interleave"


class LayoutReversed(Rearranged):
    """An axis runs backwards.

    Images upside down, channels as BGR, a sequence read from its end.

    Tested along every axis. Flip it.
    """

    code = "layout.reversed"


class LayoutPermuted(Rearranged):
    """The indices of an axis are in another order, and no rule is seen in it.

    Rows of a batch sorted, channels shuffled, a vocabulary in another order.

    Tested by looking for every index of the reference in the candidate. Bring them into the reference's order.
    """

    code = "layout.permuted"


TRANSPOSE: Final = LayoutTranspose()
RESHAPE: Final = LayoutReshape()
CHUNK_SWAP: Final = LayoutChunkSwap()
QKV_ORDER: Final = LayoutQkvOrder()
HEAD_ORDER: Final = LayoutHeadOrder()
ROPE_INTERLEAVE: Final = LayoutRopeInterleave()
INTERLEAVE: Final = LayoutInterleave()
REVERSED: Final = LayoutReversed()
PERMUTED: Final = LayoutPermuted()
