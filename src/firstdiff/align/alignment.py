"""How the two sides of a pair are brought into one layout: a recipe for each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from firstdiff.align.notation import Shape
from firstdiff.align.recipe import Recipe
from firstdiff.errors import UsageError
from firstdiff.trace import Source

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
