"""Parse recorded dimension names such as `b s h[tp] d`, and derive a recipe from those of both sides."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from firstdiff.align.notation import Axis, Group, Pattern, Shape, parse_side
from firstdiff.align.recipe import Recipe
from firstdiff.align.steps import Join, Rearrange
from firstdiff.align.steps_join import Concat, Stack, Sum
from firstdiff.errors import UsageError

Kind = Literal["sharded", "partial", "replicated"]
_KINDS: dict[str, Kind] = {"": "sharded", "sharded": "sharded", "partial": "partial", "replicated": "replicated"}
_MARK = re.compile(r"\s*\[(?P<marks>[^\[\]]*)\]")
_WORD = re.compile(r"(?P<group>\w+)(?::(?P<kind>\w+))?")


@dataclass(frozen=True, slots=True)
class Mark:
    """Ranks of a group hold parts of dimension `axis`, addends, or copies; the axis is -1 for a mark of its own."""

    axis: int
    group: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Dims:
    groups: tuple[Group, ...]
    marks: tuple[Mark, ...]

    @staticmethod
    def parse(text: str) -> Dims:
        """Read a text such as `b s h[tp] d` or `t h [tp:partial]`; UsageError says what makes no sense."""
        return _parse(" ".join(text.split()))

    @property
    def names(self) -> list[str]:
        return [axis.name for group in self.groups for axis in group]

    def join(self, shapes: Sequence[Shape], whole: Shape | None) -> Recipe | None:
        """The joins that make one tensor of those of the ranks; None if the marks and the shapes do not add up.

        whole: the shape of the other side, where it has the same axes; needed if ranks form a grid
        """
        left, joins = len(shapes), list[Join]()
        for mark in reversed(self.marks):
            by = left if mark is self.marks[0] else _ranks_along(mark, shapes[0], whole)
            if by < 1 or left % by:
                return None
            if by > 1:
                joins.append(_joining(mark, None if by == left else by))
            left //= by
        return Recipe(tuple(joins)) if left == 1 else None


def _ranks_along(mark: Mark, part: Shape, whole: Shape | None) -> int:
    if mark.kind != "sharded" or whole is None or len(part) != len(whole) or not part[mark.axis]:
        return 0
    return whole[mark.axis] // part[mark.axis]


def _joining(mark: Mark, by: int | None) -> Join:
    if mark.kind == "sharded":
        return Concat(mark.axis, by)
    return Sum(by) if mark.kind == "partial" else Stack(by)


def stated_recipe(reference: Dims, candidate: Dims, reference_shape: Shape, candidate_shape: Shape) -> Recipe | None:
    """The step from one stated order of axes to the other; None where names or shapes do not go together."""
    if sorted(reference.names) != sorted(candidate.names):
        return None
    sizes: dict[str, int] = {}
    for dims, shape in ((reference, reference_shape), (candidate, candidate_shape)):
        if len(dims.groups) != len(shape):
            return None
        sizes |= {group[0].name: n for group, n in zip(dims.groups, shape, strict=True) if len(group) == 1}
    left = tuple(tuple(Axis(axis.name, _written(axis, group, sizes)) for axis in group) for group in candidate.groups)
    right = tuple(tuple(Axis(axis.name) for axis in group) for group in reference.groups)
    step = Rearrange(Pattern(left, right))
    try:
        leads_there = step.shape(candidate_shape) == reference_shape
    except UsageError:
        return None
    if not leads_there:
        return None
    return Recipe() if candidate_shape == reference_shape and _same_order(left, right) else Recipe((step,))


def _same_order(left: tuple[Group, ...], right: tuple[Group, ...]) -> bool:
    return [[axis.name for axis in group] for group in left] == [[axis.name for axis in group] for group in right]


def _written(axis: Axis, group: Group, sizes: dict[str, int]) -> int | None:
    """Sizes are written where a group does not tell them."""
    return axis.size or sizes.get(axis.name) if len(group) > 1 and axis != group[-1] else None


@lru_cache(maxsize=1024)
def _parse(text: str) -> Dims:
    axes, marks, at = "", list[Mark](), 0
    for found in _MARK.finditer(text):
        axes += text[at : found.start()]
        at = found.end()
        attached = not found[0].startswith(" ") and bool(axes.strip())
        count = len(parse_side(axes))
        for word in found["marks"].split(","):
            marks.append(_parse_mark(word.strip(), count - 1 if attached else -1, text))
    return Dims(parse_side(axes + text[at:]), tuple(marks))


def _parse_mark(word: str, axis: int, text: str) -> Mark:
    found = _WORD.fullmatch(word)
    kind = _KINDS.get(found["kind"] or "") if found else None
    if found is None or kind is None:
        raise UsageError(f"[{word}] in dims {text!r} is not understood; write [tp], [tp:partial] or [tp:replicated]")
    if kind == "sharded" and axis < 0:
        raise UsageError(f"[{word}] in dims {text!r} stands alone; write it behind the axis that is cut, as h[{word}]")
    return Mark(axis, found["group"], kind)
