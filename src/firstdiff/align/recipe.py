"""Recipes: the steps that bring each side of a pair into one layout, parsed from text and applied to tensors.

>>> str(Recipe.parse("b s h d -> s (b h) d | [0:4]"))
'b s h d -> s (b h) d | [0:4]'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import TypeVar, final

import numpy as np

from firstdiff import dtypes
from firstdiff.align.lazy import Lazy, common_dtype
from firstdiff.align.notation import Shape
from firstdiff.align.steps import Arguments, Assembly, Crop, Join, Rearrange, Step
from firstdiff.align.steps_axis import Chunks, Rope, Ungroup
from firstdiff.align.steps_join import Concat, Pick, Stack, Sum, Unstack
from firstdiff.align.strided import Tiled
from firstdiff.errors import UsageError, did_you_mean
from firstdiff.trace import Source


@final
class Pulled(Lazy):
    """A step by its plain definition."""

    def __init__(self, step: Step, tensor: Lazy) -> None:
        super().__init__(step.shape(tensor.shape), tensor.dtype)
        self._step = step
        self._tensor = tensor

    def take(self, flat: np.ndarray) -> np.ndarray:
        return self._tensor.take(self._step.pull(self._tensor.shape, flat))


@final
class Assembled(Lazy):
    """A join by its plain definition."""

    def __init__(self, join: Assembly, tensors: Sequence[Lazy]) -> None:
        shapes = [tensor.shape for tensor in tensors]
        super().__init__(join.shape(shapes), common_dtype([tensor.dtype for tensor in tensors]))
        self._join = join
        self._tensors = tuple(tensors)

    def take(self, flat: np.ndarray) -> np.ndarray:
        which, local = self._join.pull([tensor.shape for tensor in self._tensors], flat)
        taken = np.empty(flat.shape, self.dtype)
        for number, tensor in enumerate(self._tensors):
            here = which == number
            taken[here] = tensor.take(local[here])
        return taken


@final
class Summed(Lazy):
    """The sum of tensors of one shape, added in double precision and rounded once, to their own type."""

    def __init__(self, join: Join, tensors: Sequence[Lazy]) -> None:
        shape = join.shape([tensor.shape for tensor in tensors])
        super().__init__(shape, common_dtype([tensor.dtype for tensor in tensors]))
        self._tensors = tuple(tensors)

    def each(self, change: Callable[[Lazy], Lazy], join: Join) -> Summed:
        """The sum after a step, which is the sum of what the step makes of each."""
        return Summed(join, [change(tensor) for tensor in self._tensors])

    def take(self, flat: np.ndarray) -> np.ndarray:
        return self._added([tensor.take(flat) for tensor in self._tensors])

    def window(self, start: int, stop: int) -> np.ndarray:
        return self._added([tensor.window(start, stop) for tensor in self._tensors])

    def _added(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        wide = _WIDE[dtypes.kind_of(self.dtype)]
        total = parts[0].astype(wide)
        for part in parts[1:]:
            np.add(total, part, out=total, casting="unsafe")
        return total.astype(self.dtype)


_WIDE: dict[str, np.dtype] = {
    "float": np.dtype(np.float64),
    "complex": np.dtype(np.complex128),
    "int": np.dtype(np.int64),
    "bool": np.dtype(bool),
}


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
    """The steps applied to the tensors of one side; none at all is the identity."""

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


_SIDE = re.compile(r"(?P<side>reference|candidate)\s*:(?P<recipe>.*)")


@dataclass(frozen=True, slots=True)
class Alignment:
    """`b s -> s b` changes the candidate; `reference: [:, 0:8]; candidate: b s -> s b` changes both."""

    reference: Recipe = field(default_factory=Recipe)
    candidate: Recipe = field(default_factory=Recipe)

    @staticmethod
    def parse(text: str) -> Alignment:
        """Read a text; UsageError says in one sentence what makes no sense."""
        sides: dict[str, Recipe] = {}
        for part in text.split(";"):
            named = _SIDE.fullmatch(part.strip())
            side, recipe = (named["side"], named["recipe"]) if named else ("candidate", part)
            if side in sides:
                raise UsageError(f"{text!r} has two recipes for the {side}; put one step after the other with |")
            sides[side] = Recipe.parse(recipe)
        return Alignment(**sides)

    def __str__(self) -> str:
        if not self.reference:
            return str(self.candidate)
        if not self.candidate:
            return f"reference: {self.reference}"
        return f"reference: {self.reference}; candidate: {self.candidate}"

    def __bool__(self) -> bool:
        return bool(self.reference or self.candidate)

    @property
    def sides(self) -> tuple[Recipe, Recipe]:
        return self.reference, self.candidate

    @property
    def is_identity(self) -> bool:
        return not self

    @property
    def moves(self) -> tuple[str, ...]:
        """The named steps; those of the reference say so."""
        return (*(f"{move} (reference)" for move in self.reference.moves), *self.candidate.moves)

    def coverage(self, reference: Sequence[Shape], candidate: Sequence[Shape]) -> tuple[float, float]:
        """The share of each side that is compared."""
        return self.reference.coverage(reference), self.candidate.coverage(candidate)

    def apply(self, references: Sequence[Source], candidates: Sequence[Source]) -> tuple[Source, Source]:
        """Both sides in their common layout; UsageError if the recipes do not lead to one."""
        reference, candidate = self.reference.apply(references), self.candidate.apply(candidates)
        if reference.shape != candidate.shape:
            raise UsageError(
                f"'{self}' makes {list(candidate.shape)} of the candidate, but the reference is {list(reference.shape)}"
            )
        return reference, candidate
