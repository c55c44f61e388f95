"""Find the recipe that relates two tensors: stated in `dims`, identity, proven on other rows, or searched for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from firstdiff.align.dims import Dims, stated_recipe
from firstdiff.align.hints import Hints
from firstdiff.align.lazy import Lazy
from firstdiff.align.proposal import FIT
from firstdiff.align.recipe import Alignment, lazy
from firstdiff.align.sampling import Noise, coarser, is_coarse, noises, sample_positions, widened
from firstdiff.align.search import LayoutSearch, broadcast_alignment, plain_alignment
from firstdiff.align.solution import Solution
from firstdiff.align.strategies import Strategy, in_order
from firstdiff.align.stride_search import Budget
from firstdiff.trace import Source

_QUICK = 192
SAME = 0.98
_ROUNDS = 800


def solve(
    reference: Source,
    candidate: Source,
    *,
    dims: tuple[str | None, str | None] = (None, None),
    noise: Noise | None = None,
    strategies: Sequence[Strategy] | None = None,
    hints: Sequence[Alignment] = (),
    deadline: float | None = None,
) -> Solution:
    """Find the recipe that relates the candidate's layout to the reference's.

    dims: what each side states about its axes, such as `b s h d`; believed first, and checked
    noise: what counts as the same value, where the types of the tensors do not tell
    strategies: what to try; those of the hook `firstdiff.alignment` if left out
    hints: recipes proven on other rows, tried before any search; the best one stands where nothing fits
    deadline: the `time.perf_counter()` at which the search stops; the solution is then not `complete`
    """
    if not reference.size or not candidate.size:
        return _solve_empty(reference, candidate)
    one, other = lazy(reference), lazy(candidate)
    stated = _stated(one, other, dims, noise)
    if stated is not None and stated.fits:
        return stated
    found = _searched(one, other, noise, strategies, hints, Budget(_ROUNDS, deadline))
    if stated is None or stated.alignment == found.alignment:
        return found
    if not found.fits:
        return stated
    note = f"dims say {dims[1]} -> {dims[0]}, which does not fit the values"
    return replace(found, notes=(*found.notes, note))


def solve_stated(
    alignment: Alignment, references: Sequence[Source], candidates: Sequence[Source], *, noise: Noise | None = None
) -> Solution:
    """Check a recipe that the user states; UsageError if it does not fit the shapes."""
    reference, candidate = alignment.apply(references, candidates)
    same = share_same(lazy(reference), lazy(candidate), noise) if reference.size else 1.0
    coverage = alignment.coverage([source.shape for source in references], [source.shape for source in candidates])
    return Solution(
        alignment=alignment,
        fits=same >= FIT,
        agreement=same,
        confidence=1.0,
        reference_coverage=coverage[0],
        candidate_coverage=coverage[1],
    )


def _stated(
    reference: Lazy, candidate: Lazy, dims: tuple[str | None, str | None], noise: Noise | None
) -> Solution | None:
    if dims[0] is None or dims[1] is None:
        return None
    recipe = stated_recipe(Dims.parse(dims[0]), Dims.parse(dims[1]), reference.shape, candidate.shape)
    if recipe is None:
        return None
    same = share_same(reference, lazy(recipe.apply([candidate])), noise)
    return Solution(
        alignment=Alignment(candidate=recipe),
        fits=same >= FIT,
        cause="layout.transpose" if recipe else None,
        agreement=same,
        confidence=1.0,
        declared=True,
    )


def _searched(
    reference: Lazy,
    candidate: Lazy,
    noise: Noise | None,
    strategies: Sequence[Strategy] | None,
    hints: Sequence[Alignment],
    budget: Budget,
) -> Solution:
    """Identity where it fits, else a hint that does, else what the search finds, else the likeliest hint."""
    contract = plain_alignment(reference.shape, candidate.shape)
    kept: Solution | None = None
    if contract is not None:
        shares = _shares_same(reference, candidate, noise)
        kept = Solution(alignment=contract, fits=max(shares) >= SAME, agreement=max(shares), confidence=1.0)
        if shares[0] >= SAME or (kept.fits and is_coarse(coarser(reference.dtype, candidate.dtype))):
            return kept
    repeated = broadcast_alignment(reference, candidate)
    if repeated is not None:
        laid_out = repeated.apply([reference], [candidate])
        same = share_same(lazy(laid_out[0]), lazy(laid_out[1]), noise)
        return Solution(
            alignment=repeated, fits=same >= FIT, cause="layout.repeat", agreement=same, confidence=round(same, 4)
        )
    tried = Hints(hints, [reference], [candidate], noise)
    hinted = tried.fitting(kept)
    if hinted is not None:
        return hinted
    if budget.is_over():
        found = replace(kept or Solution(alignment=None, fits=False), complete=False)
    else:
        search = LayoutSearch(reference, candidate, noise, in_order(strategies), budget)
        found = search.other_shapes() if kept is None else search.equal_shapes(kept)
        found = found if found.fits else replace(found, complete=not budget.stopped)
    return tried.instead_of(found)


def share_same(reference: Lazy, candidate: Lazy, noise: Noise | None = None) -> float:
    """The share of a small sample of two tensors that agrees up to noise, taken in C order; cheap."""
    return max(_shares_same(reference, candidate, noise))


def _shares_same(reference: Lazy, candidate: Lazy, noise: Noise | None) -> list[float]:
    """That share at every level of noise, strict ones first, up to one at which nearly all agree."""
    flat = sample_positions(reference.size, _QUICK)
    values = widened(reference.take(flat)), widened(candidate.take(flat))
    shares: list[float] = []
    for entry in [noise] if noise else noises(values[0], coarser(reference.dtype, candidate.dtype)):
        shares.append(float(entry.same(*values).mean()))
        if shares[-1] >= SAME:
            break
    return shares


def _solve_empty(reference: Source, candidate: Source) -> Solution:
    if reference.size or candidate.size:
        return Solution(alignment=None, fits=False, notes=("one side has no elements",))
    same = reference.shape == candidate.shape
    return Solution(alignment=Alignment() if same else None, fits=same, agreement=1.0, confidence=1.0)
