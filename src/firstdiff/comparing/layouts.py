"""Choose the layout of a pair: stated, declared, proven on other rows or found in the values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from firstdiff import schema
from firstdiff.align import Alignment, Ruling, Solution, layout_rule, solve, solve_fused, solve_shards, solve_stated
from firstdiff.comparing.options import Effort, LayoutOptions
from firstdiff.comparing.rows import MatchedPair
from firstdiff.errors import UsageError
from firstdiff.pairing.strategy import ranked_key
from firstdiff.schema import Diagnosis
from firstdiff.trace import Source, Tensor

# recipes tried before a search: more than a few are no longer cheap
_MOST_HINTS = 4


@dataclass(frozen=True)
class AlignedPair:
    """A pair in one layout; `sources` is None where nothing relates the two."""

    solution: Solution
    ruling: Ruling
    sources: tuple[Source, Source] | None

    def cause(self, residual: float | None) -> Diagnosis:
        """Return what it means that the values agree in this layout and not as they are."""
        name = str(self.solution.alignment)
        return Diagnosis(
            cause=self.solution.cause or "layout.reshape",
            confidence=self.solution.confidence,
            evidence=f"through '{name}' the values agree at {self.solution.agreement:.1%} of the places looked at",
            fix=f"bring the candidate into the reference's layout: {name}",
            residual=residual,
        )

    def described(self) -> schema.Alignment:
        """Return what the report says of the layout."""
        alignment = self.solution.as_schema()
        assert alignment is not None, "what was measured has a recipe"
        return replace(
            alignment,
            reference_coverage=self.solution.reference_coverage,
            candidate_coverage=self.solution.candidate_coverage,
            notes=self.solution.notes,
            barred=None if self.ruling.may_match else self.ruling.reason,
        )


@final
class Layouts:
    """Finds the layouts of a run's pairs, and learns from those that fit.

    Only searches that find nothing cost effort: a healthy run of any size is searched whole.
    """

    def __init__(self, options: LayoutOptions, effort: Effort) -> None:
        self._options = options
        self._effort = effort
        self._by_shapes: dict[tuple[object, ...], dict[str, Alignment]] = defaultdict(dict)
        self._by_stage: dict[str, dict[str, Alignment]] = defaultdict(dict)
        self._by_cut: dict[tuple[int, int, int], dict[str, Alignment]] = defaultdict(dict)
        self.not_searched: list[str] = []

    def states(self, matched: MatchedPair) -> bool:
        """Return whether the user states a recipe for this row."""
        return matched.key in self._options.stated or bool(matched.match and matched.match.recipe)

    def may_match(self, matched: MatchedPair) -> bool:
        """Return whether another layout could make a match of a row of equal shapes."""
        if self._options.mode == "strict":
            return False
        declared = all(side[0].record.dims for side in (matched.references, matched.candidates))
        return declared or bool(self._options.accepted) or matched.first.key.role == "param"

    def align(self, matched: MatchedPair) -> AlignedPair:
        """Return the layout a pair is to be measured in."""
        sides = [t.values() for t in matched.references], [t.values() for t in matched.candidates]
        stated = self._options.stated.get(matched.key)
        if stated is None and matched.match and matched.match.recipe:
            stated = Alignment.parse(matched.match.recipe)
        solution = _stated(matched.key, stated, sides) if stated is not None else self._search(matched, sides)
        ruling = layout_rule(
            solution,
            role=matched.first.key.role,
            stated=stated is not None,
            accepted=self._options.accepted,
            strict=self._options.mode == "strict",
        )
        aligned = solution.alignment.apply(*sides) if solution.alignment is not None else None
        return AlignedPair(solution, ruling, aligned)

    def learn(self, matched: MatchedPair, solution: Solution) -> None:
        """Remember a recipe that was proven on a row: rows of the same shapes or the same stage try it first.

        What cuts one axis, such as a text out of a batch, is tried where that axis has the same lengths.
        """
        if solution.alignment is None:
            return
        name = str(solution.alignment)
        if min(solution.reference_coverage, solution.candidate_coverage) < 1:
            cut = _cut_axis(matched)
            if cut is not None:
                self._by_cut[cut][name] = solution.alignment
            return
        self._by_shapes[_shapes(matched)][name] = solution.alignment
        self._by_stage[matched.stage][name] = solution.alignment

    def _hints(self, matched: MatchedPair) -> list[Alignment]:
        cut = _cut_axis(matched)
        known = {} if cut is None else dict(self._by_cut.get(cut, {}))
        known |= {**self._by_stage.get(matched.stage, {}), **self._by_shapes.get(_shapes(matched), {})}
        return list(known.values())[:_MOST_HINTS]

    def _search(self, matched: MatchedPair, sides: tuple[list[Source], list[Source]]) -> Solution:
        hints = self._hints(matched)
        self._effort.start()
        found = _solved(matched, sides, hints, self._effort.deadline())
        self._effort.stop(count=not found.fits)
        if not found.complete:
            self.not_searched.append(matched.key)
        return found


def _solved(
    matched: MatchedPair,
    sides: tuple[list[Source], list[Source]],
    hints: Sequence[Alignment],
    deadline: float | None,
) -> Solution:
    references, candidates = matched.references, matched.candidates
    dims = references[0].record.dims, candidates[0].record.dims
    if len(references) == len(candidates) == 1:
        return solve(sides[0][0], sides[1][0], dims=dims, hints=hints, deadline=deadline)
    if _are_ranks(references) and _are_ranks(candidates):
        return solve_shards(*sides, dims=dims, hints=hints, deadline=deadline)
    return solve_fused(*sides, hints=hints, deadline=deadline)


def _stated(key: str, alignment: Alignment, sides: tuple[list[Source], list[Source]]) -> Solution:
    try:
        return solve_stated(alignment, *sides)
    except UsageError as error:
        raise UsageError(f"the recipe stated for {key} does not fit: {error}") from error


def _are_ranks(tensors: Sequence[Tensor]) -> bool:
    """Return whether several tensors are what several ranks hold; one alone is whole."""
    return len({ranked_key(tensor).rank for tensor in tensors}) == len(tensors)


def _cut_axis(matched: MatchedPair) -> tuple[int, int, int] | None:
    """Return the only axis whose lengths differ, and both lengths; None for shapes that differ otherwise."""
    tensors = (*matched.references, *matched.candidates)
    shapes = [tensor.source.shape for tensor in tensors if tensor.source]
    if len(tensors) != 2 or len(shapes) != 2 or len(shapes[0]) != len(shapes[1]):
        return None
    cut = [(axis, *lengths) for axis, lengths in enumerate(zip(*shapes, strict=True)) if lengths[0] != lengths[1]]
    return cut[0] if len(cut) == 1 else None


def _shapes(matched: MatchedPair) -> tuple[object, ...]:
    return tuple(
        tuple(tensor.source.shape for tensor in side if tensor.source)
        for side in (matched.references, matched.candidates)
    )
