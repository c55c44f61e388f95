"""Which layout a pair is measured in, and whether values that agree in it may be a match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firstdiff.align import Alignment, Ruling, Solution, layout_rule, solve, solve_fused, solve_shards, solve_stated
from firstdiff.comparing.layout_options import LayoutOptions
from firstdiff.errors import UsageError
from firstdiff.pairing import Match
from firstdiff.pairing.side import ranked_key
from firstdiff.schema import Diagnosis
from firstdiff.trace import Source, Tensor


@dataclass(frozen=True)
class Laid:
    """A pair in one layout; `sources` is None where nothing relates the two."""

    solution: Solution
    ruling: Ruling
    sources: tuple[Source, Source] | None

    def diagnosis(self, residual: float | None) -> Diagnosis:
        """What it means that the values fit in this layout and not as they are."""
        name = str(self.solution.alignment)
        return Diagnosis(
            cause=self.solution.cause or "layout.reshape",
            confidence=self.solution.confidence,
            evidence=f"through '{name}' the values agree at {self.solution.agreement:.1%} of the places looked at",
            fix=f"bring the candidate into the reference's layout: {name}",
            residual=residual,
        )


def lay_out(match: Match, references: Sequence[Tensor], candidates: Sequence[Tensor], options: LayoutOptions) -> Laid:
    """The layout in which a pair is to be measured, as stated, declared or found in the values."""
    key = references[0].key
    sides = [tensor.values() for tensor in references], [tensor.values() for tensor in candidates]
    stated = options.stated.get(str(key)) or (Alignment.parse(match.recipe) if match.recipe else None)
    solution = _solved(references, candidates, sides) if stated is None else _stated(str(key), stated, sides)
    ruling = layout_rule(
        solution,
        role=key.role,
        stated=stated is not None,
        accepted=options.accepted,
        strict=options.mode == "strict",
    )
    aligned = solution.alignment.apply(*sides) if solution.alignment is not None else None
    return Laid(solution, ruling, aligned)


def _stated(key: str, alignment: Alignment, sides: tuple[list[Source], list[Source]]) -> Solution:
    try:
        return solve_stated(alignment, *sides)
    except UsageError as error:
        raise UsageError(f"the recipe stated for {key} does not fit: {error}") from error


def _solved(
    references: Sequence[Tensor], candidates: Sequence[Tensor], sides: tuple[list[Source], list[Source]]
) -> Solution:
    dims = references[0].record.dims, candidates[0].record.dims
    if len(references) == len(candidates) == 1:
        return solve(sides[0][0], sides[1][0], dims=dims)
    if _are_ranks(references) and _are_ranks(candidates):
        return solve_shards(*sides, dims=dims)
    return solve_fused(*sides)


def _are_ranks(tensors: Sequence[Tensor]) -> bool:
    """Whether several tensors are what several ranks hold; one alone is whole."""
    return len({ranked_key(tensor).rank for tensor in tensors}) == len(tensors)
