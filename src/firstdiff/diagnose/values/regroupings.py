"""Find a transposition or a split of axes in another order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from math import prod

import numpy as np

from firstdiff.align.stride_search import divisors
from firstdiff.diagnose.values.share import typical
from firstdiff.diagnose.values.sides import Sides

_SAMPLE = 512
_LEFT = 0.3
_MOST_AXES = 5
_MOST_CUTS = 12
_LETTERS = "abcdefgh"


@dataclass(frozen=True, slots=True)
class Regrouping:
    """The reference read as `lengths`, its axes put in `order`, read in the tensor's own shape again."""

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
    """The plainest that accounts for most of the difference; None if there is none."""
    size = sides.reference.size
    flat = np.unique((np.arange(_SAMPLE) * size // _SAMPLE + np.arange(_SAMPLE) * 7919) % size)
    reference, candidate = sides.reference.reshape(-1), sides.candidate.reshape(-1)[flat]
    before = min(typical(candidate - reference[flat]), typical(candidate - candidate.mean()))
    if not 0 < before < np.inf:
        return None
    for one in _regroupings(sides.shape):
        if typical(candidate - reference[_pulled(one, flat)]) < _LEFT * before:
            return one
    return None


def _regroupings(shape: tuple[int, ...]) -> Iterator[Regrouping]:
    """Whole axes first, then one axis cut in two."""
    axes = tuple(length for length in shape if length > 1)
    if len(axes) <= _MOST_AXES:
        yield from _orders(axes, axes)
    if len(axes) >= _MOST_AXES or len(axes) < 2:
        return
    for at in reversed(range(len(axes))):
        for inner in _cuts(axes[at]):
            cut = (*axes[:at], axes[at] // inner, inner, *axes[at + 1 :])
            yield from _orders(cut, axes)


def _orders(lengths: tuple[int, ...], shape: tuple[int, ...]) -> Iterator[Regrouping]:
    for order in sorted(permutations(range(len(lengths))), key=_moved)[1:]:
        plain = len(lengths) == len(shape) and tuple(lengths[axis] for axis in order) == shape
        yield Regrouping("layout.transpose" if plain else "layout.reshape", lengths, order)


def _moved(order: tuple[int, ...]) -> int:
    return sum(axis != at for at, axis in enumerate(order))


def _cuts(length: int) -> tuple[int, ...]:
    return divisors(length)[1:-1][:_MOST_CUTS]


def _pulled(one: Regrouping, flat: np.ndarray) -> np.ndarray:
    """Return the flat index in the reference of each of the candidate's flat indices."""
    strides = [prod(one.lengths[axis + 1 :]) for axis in range(len(one.lengths))]
    rest, found = flat, np.zeros_like(flat)
    for axis in reversed(one.order):
        rest, at = np.divmod(rest, one.lengths[axis])
        found = found + at * strides[axis]
    return found
