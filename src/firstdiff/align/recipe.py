"""Recipes: steps in a row, as text and as what they make of tensors.

>>> str(Recipe.parse("b s h d -> s (b h) d | [0:4]"))
'b s h d -> s (b h) d | [0:4]'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TypeVar

from firstdiff.align.chunks import Chunks, Ungroup
from firstdiff.align.crop import Crop
from firstdiff.align.derived import Assembled, Pulled, Summed
from firstdiff.align.join import Concat, Pick, Stack, Sum, Unstack
from firstdiff.align.lazy import Lazy
from firstdiff.align.notation import Shape
from firstdiff.align.rearrange import Rearrange
from firstdiff.align.rope import Rope
from firstdiff.align.steps import Arguments, Assembly, Join, Step
from firstdiff.align.tiled import Tiled
from firstdiff.errors import UsageError, did_you_mean
from firstdiff.trace import Source

IDENTITY = "identity"
AnyStep = Step | Join | Unstack | Pick
_T = TypeVar("_T")

_NAMED: dict[str, Callable[[Arguments], AnyStep]] = {
    "chunks": Chunks.read,
    "concat": Concat.read,
    "group": Ungroup.read_backwards,
    "pick": Pick.read,
    "rope_half": Rope.read,
    "rope_interleave": Rope.read_interleave,
    "stack": Stack.read,
    "sum": Sum.read,
    "ungroup": Ungroup.read,
    "unstack": Unstack.read,
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is done to the tensors of one side, first step first; no step at all is the identity."""

    steps: tuple[AnyStep, ...] = ()

    @staticmethod
    def parse(text: str) -> Recipe:
        """Read steps divided by `|`; UsageError says in one sentence what makes no sense."""
        return _parse(" ".join(text.split()))

    def __str__(self) -> str:
        return " | ".join(map(str, self.steps)) or IDENTITY

    def __bool__(self) -> bool:
        return bool(self.steps)

    def then(self, *steps: AnyStep) -> Recipe:
        return Recipe((*self.steps, *steps))

    @property
    def moves(self) -> tuple[str, ...]:
        """Every step by name, such as `unflatten`, `permute`."""
        return tuple(move for step in self.steps for move in step.moves)

    def shape(self, shapes: Sequence[Shape]) -> Shape:
        """The shape that comes out of tensors of these shapes; UsageError says what does not fit."""
        for step in self.steps:
            shapes = shapes_after(step, shapes)
        if len(shapes) != 1:
            raise UsageError(
                f"'{self}' leaves {len(shapes)} tensors where one is wanted; "
                "join them with concat(axis=0), stack() or sum()"
            )
        return shapes[0]

    def coverage(self, shapes: Sequence[Shape]) -> float:
        """The share of the input's elements that is in the output."""
        kept = 1.0
        for step in self.steps:
            after = shapes_after(step, shapes)
            if isinstance(step, Crop):
                kept *= sum(map(prod, after)) / max(sum(map(prod, shapes)), 1)
            shapes = after
        return kept

    def apply(self, sources: Sequence[Source]) -> Source:
        """The tensor that comes out, read block by block; the sources themselves stay where they are."""
        shape = self.shape([source.shape for source in sources])
        if not self.steps:
            return sources[0]
        if prod(shape) == 0:
            return Tiled(shape, (0,), (), sources[0].dtype)
        tensors: Sequence[Lazy] = [lazy(source) for source in sources]
        for step in self.steps:
            tensors = _tensors_after(step, tensors)
        return tensors[0].made_of(sources)


def lazy(source: Source) -> Lazy:
    """A source that can be taken from element by element."""
    return source if isinstance(source, Lazy) else Tiled.of(source)


@lru_cache(maxsize=4096)
def _parse(text: str) -> Recipe:
    words = [word.strip() for word in text.split("|")]
    if words in ([IDENTITY], [""]):
        return Recipe()
    return Recipe(tuple(_parse_step(word) for word in words))


def _parse_step(text: str) -> AnyStep:
    if "->" in text:
        return Rearrange.parse(text)
    if text.startswith("[") and text.endswith("]"):
        return Crop.parse(text)
    name, arguments = Arguments.parse(text)
    if name not in _NAMED:
        raise UsageError(f"there is no step {name!r}{did_you_mean(name, _NAMED)}; there are {', '.join(_NAMED)}")
    step = _NAMED[name](arguments)
    arguments.finish()
    return step


def _grouped(items: Sequence[_T], join: Join) -> list[Sequence[_T]]:
    by = join.by or len(items)
    if by < 1 or len(items) % by:
        raise UsageError(f"'{join}' takes {by} tensors at a time, which {len(items)} cannot be divided into")
    return [items[first : first + by] for first in range(0, len(items), by)]


def shapes_after(step: AnyStep, shapes: Sequence[Shape]) -> list[Shape]:
    """Return the shapes that come out of one step; UsageError says what does not fit."""
    if isinstance(step, Join):
        return [step.shape(group) for group in _grouped(shapes, step)]
    if isinstance(step, Unstack):
        return [part.shape(shape) for shape in shapes for part in step.parts(shape)]
    if isinstance(step, Pick):
        return step.of(shapes)
    return [step.shape(shape) for shape in shapes]


def _tensors_after(step: AnyStep, tensors: Sequence[Lazy]) -> list[Lazy]:
    if isinstance(step, Join):
        return [_joined(step, group) for group in _grouped(tensors, step)]
    if isinstance(step, Unstack):
        return [_stepped(part, tensor) for tensor in tensors for part in step.parts(tensor.shape)]
    if isinstance(step, Pick):
        return step.of(tensors)
    return [_stepped(step, tensor) for tensor in tensors]


def _stepped(step: Step, tensor: Lazy) -> Lazy:
    if isinstance(tensor, Summed):
        return tensor.each(lambda part: _stepped(step, part), Sum())
    viewed = step.view(tensor) if isinstance(tensor, Tiled) else None
    return viewed if viewed is not None else Pulled(step, tensor)


def _joined(join: Join, tensors: Sequence[Lazy]) -> Lazy:
    if not isinstance(join, Assembly):
        return Summed(join, tensors)
    views = [tensor for tensor in tensors if isinstance(tensor, Tiled)]
    viewed = join.view(views) if len(views) == len(tensors) else None
    return viewed if viewed is not None else Assembled(join, tensors)
