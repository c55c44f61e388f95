"""What the solver says about a pair."""

from __future__ import annotations

from dataclasses import dataclass

from firstdiff import schema
from firstdiff.align.alignment import Alignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """How two tensors relate, as far as their shapes and a sample of their values tell.

    alignment: the recipes to measure through; None where nothing relates the two (`reason` is then "shape")
    fits: whether the sampled values agree under it up to noise, well above chance
    cause: `layout.…`, what to call it where identity was the contract; None where nothing moves
    agreement: share of the telling samples that agree
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
