"""q, k and v in one tensor, gate and up in one, against the same in tensors of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations

from firstdiff.align.alignment import Alignment
from firstdiff.align.chunks import Chunks
from firstdiff.align.hints import Hints
from firstdiff.align.join import Concat, Pick
from firstdiff.align.joined import Options, Parts, concat_axes, plainly_joined, solve_joined
from firstdiff.align.recipe import Recipe
from firstdiff.align.samples import Noise
from firstdiff.align.solution import Solution
from firstdiff.align.strategy import Strategy
from firstdiff.trace import Source

_MOST_PARTS = 4
_ORDER = {3: "layout.qkv_order"}


def solve_fused(
    references: Sequence[Source],
    candidates: Sequence[Source],
    *,
    noise: Noise | None = None,
    strategies: Sequence[Strategy] | None = None,
    hints: Sequence[Alignment] = (),
    deadline: float | None = None,
) -> Solution:
    """How the parts on one side make up the fused tensor on the other.

    references, candidates: the fused tensor alone, and the parts in the order they should have: q, k, v or gate, up
    hints: recipes proven on other rows, tried before any search; the best one stands where nothing fits
    deadline: the `time.perf_counter()` at which the search stops; the solution is then not `complete`
    """
    if len(references) > 1 and len(candidates) > 1:
        note = f"{len(references)} tensors against {len(candidates)}: one side must be a single, fused one"
        return Solution(alignment=None, fits=False, notes=(note,))
    parts = Parts(references, candidates)
    options = Options(noise=noise, strategies=strategies, deadline=deadline)
    straight = plainly_joined(parts, _in_order(parts), options)
    if straight is not None:
        return replace(straight, cause="layout.fused")
    tried = Hints(hints, references, candidates, noise)
    hinted = tried.fitting()
    if hinted is not None:
        return _as_fused(hinted)
    swapped = plainly_joined(parts, _out_of_order(parts), options)
    if swapped is not None:
        return replace(swapped, cause=_ORDER.get(len(parts.parts), "layout.chunk_swap"), forced=False)
    found = solve_joined(parts, _in_order(parts), options)
    if not found.fits:
        other = solve_joined(parts, _out_of_order(parts), options)
        if other.fits:
            return replace(other, forced=False)
        found = tried.instead_of(replace(found, complete=found.complete and other.complete))
        return _as_fused(found) if found.proven else found
    return _as_fused(found)


def _as_fused(solution: Solution) -> Solution:
    """Fusing is no change of layout unless chunks or parts are in another order."""
    assert solution.alignment is not None, "what fits has recipes"
    steps = (*solution.alignment.reference.steps, *solution.alignment.candidate.steps)
    reordered = any(isinstance(step, Chunks | Pick) for step in steps)
    return replace(solution, forced=not reordered, cause=solution.cause if reordered else "layout.fused")


def _in_order(parts: Parts) -> Iterator[Alignment]:
    shapes = [source.shape for source in parts.parts]
    for axis in concat_axes(shapes, parts.whole.shape):
        yield parts.placed(Recipe((Concat(axis),)))


def _out_of_order(parts: Parts) -> Iterator[Alignment]:
    """The parts in any order but the one they should have."""
    shapes = [source.shape for source in parts.parts]
    if len(shapes) > _MOST_PARTS:
        return
    for axis in concat_axes(shapes, parts.whole.shape):
        for order in list(permutations(range(len(shapes))))[1:]:
            yield parts.placed(Recipe((Pick(order), Concat(axis))))
