"""The result of a layout search, and the rule for recipes that count as a match."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from firstdiff import schema
from firstdiff.align.recipe import Alignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """The relation of two tensors, from their shapes and a sample of their values.

    alignment: the recipes to measure through; None where nothing relates the two (`reason` is then "shape")
    fits: whether the sampled values agree under it up to noise, well above chance
    cause: `layout.…`, what to call it where identity was the contract; None where nothing moves
    agreement: share of the informative samples that agree
    confidence: from 0 to 1; low where the values cannot tell one recipe from another
    reference_coverage, candidate_coverage: the share of each side that is compared
    forced: whether the shapes call for this recipe, so that it may be a match
    declared: whether it comes from `dims`
    proven: whether it is the recipe of other rows, as passed in `hints`
    complete: False where the deadline ended the search before everything was tried
    alternatives: other recipes that fit as well
    tried: what was looked for, in order
    notes: sentences worth showing
    """

    alignment: Alignment | None
    fits: bool
    cause: str | None = None
    agreement: float = 0.0
    confidence: float = 0.0
    reference_coverage: float = 1.0
    candidate_coverage: float = 1.0
    forced: bool = True
    declared: bool = False
    proven: bool = False
    complete: bool = True
    alternatives: tuple[Alignment, ...] = ()
    tried: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_identity(self) -> bool:
        return self.alignment is not None and self.alignment.is_identity

    @property
    def coverage(self) -> float:
        """The share that is compared of the side of which less is."""
        return min(self.reference_coverage, self.candidate_coverage)

    @property
    def reason(self) -> str | None:
        return "shape" if self.alignment is None else None

    def as_schema(self) -> schema.Alignment | None:
        """The part of a comparison's JSON; None where nothing relates the two."""
        if self.alignment is None:
            return None
        return schema.Alignment(
            recipe=str(self.alignment),
            steps=self.alignment.moves,
            coverage=self.coverage,
            confidence=self.confidence,
            alternatives=tuple(map(str, self.alternatives)),
            reference_coverage=self.reference_coverage,
            candidate_coverage=self.candidate_coverage,
            notes=self.notes,
        )


@dataclass(frozen=True, slots=True)
class Ruling:
    """Says if values that agree under a recipe may be a match, and why."""

    may_match: bool
    reason: str


def layout_rule(
    solution: Solution,
    *,
    role: str = "output",
    stated: bool = False,
    accepted: Collection[str] = (),
    strict: bool = False,
) -> Ruling:
    """May the pair be a match under the solution's recipe?

    role: of the reference; a `param` may be kept in any layout
    stated: whether the user gave this recipe
    accepted: causes the user accepts, with or without `layout.`: `transpose`, `rope_interleave`
    strict: let nothing but identity match
    """
    if solution.alignment is None:
        tried = f"; tried: {', '.join(solution.tried)}" if solution.tried else ""
        return Ruling(False, f"no recipe relates the shapes{tried}")
    if solution.is_identity:
        return Ruling(True, "same layout")
    recipe = f"'{solution.alignment}'"
    if strict:
        return Ruling(False, f"only identity may match here; {recipe} would have fitted")
    if stated:
        return Ruling(True, f"{recipe} is stated")
    if role == "param":
        return Ruling(True, f"a param may be kept in any layout, here {recipe}")
    if solution.declared:
        return Ruling(True, f"dims declare {recipe}")
    if solution.forced:
        return Ruling(True, f"the shapes call for {recipe}")
    code = solution.cause or "layout.reshape"
    name = code.removeprefix("layout.")
    if {code, name} & set(accepted):
        return Ruling(True, f"{recipe} is accepted as {name}")
    return Ruling(False, f"the values fit only through {recipe} ({code}); accept it with --accept-layout {name}")
