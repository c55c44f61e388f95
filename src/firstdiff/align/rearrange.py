"""`b s (h d) -> s (b h) d`: permute, flatten, unflatten, squeeze, unsqueeze and repeat, in one step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from firstdiff.align.notation import Bound, Pattern, Shape, bind, parse_pattern
from firstdiff.align.steps import Step
from firstdiff.align.tiled import Tiled


@final
@dataclass(frozen=True, slots=True)
class Rearrange(Step):
    pattern: Pattern

    @classmethod
    def parse(cls, text: str) -> Rearrange:
        return cls(parse_pattern(" ".join(text.split())))

    def __str__(self) -> str:
        return str(self.pattern)

    @property
    def moves(self) -> tuple[str, ...]:
        left, right = self.pattern.left, self.pattern.right
        repeated = set(self.pattern.repeated)
        before = [axis.name for group in left for axis in group]
        after = [axis.name for group in right for axis in group if axis not in repeated]
        found = {
            "squeeze": left.count(()) > right.count(()),
            "unflatten": any(len(group) > 1 and not _stays(group, right) for group in left),
            "permute": before != after,
            "repeat": bool(repeated),
            "flatten": any(len(group) > 1 and not _stays(group, left) for group in right),
            "unsqueeze": left.count(()) < right.count(()),
        }
        return tuple(name for name, done in found.items() if done)

    def shape(self, shape: Shape) -> Shape:
        return bind(self.pattern, shape).shape

    def pull(self, shape: Shape, flat: np.ndarray) -> np.ndarray:
        bound = bind(self.pattern, shape)
        digits: dict[str, np.ndarray] = {}
        rest = flat
        for name in reversed(_flattened(bound.right)):
            rest, digits[name] = np.divmod(rest, bound.sizes[name])
        source = np.zeros_like(flat)
        for name in _flattened(bound.left):
            source = source * bound.sizes[name] + digits[name]
        return source

    def view(self, tensor: Tiled) -> Tiled | None:
        bound = bind(self.pattern, tensor.shape)
        names = _flattened(bound.left)
        refined = tensor.refined(bound.sizes[name] for name in names)
        if refined is None:
            return None
        finer, groups = refined
        return _permuted(finer, bound, dict(zip(names, groups, strict=True)))


def _permuted(tensor: Tiled, bound: Bound, axes: dict[str, list[int]]) -> Tiled:
    order: list[int] = []
    repeats: list[tuple[int, int]] = []
    for name in _flattened(bound.right):
        if name not in bound.repeated:
            order += axes[name]
        elif bound.sizes[name] > 1:
            repeats.append((len(order) + len(repeats), bound.sizes[name]))
    arranged = tensor.permuted(order, tuple(tensor.axes[axis] for axis in order))
    for at, times in repeats:
        arranged = arranged.repeated(at, times)
    return arranged.shaped(bound.shape)


def _flattened(groups: tuple[tuple[str, ...], ...]) -> list[str]:
    return [name for group in groups for name in group]


def _stays(group: tuple[object, ...], groups: tuple[tuple[object, ...], ...]) -> bool:
    names = [str(axis).partition("=")[0] for axis in group]
    return any(names == [str(axis).partition("=")[0] for axis in other] for other in groups)
