"""Tensors that parallel ranks hold, against the whole: cut along an axis, copied, or added up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from firstdiff.align.alignment import Alignment
from firstdiff.align.dims import Dims
from firstdiff.align.hints import Hints
from firstdiff.align.join import Concat, Stack, Sum
from firstdiff.align.joined import Options, Parts, concat_axes, solve_after, solve_joined
from firstdiff.align.rearrange import Rearrange
from firstdiff.align.recipe import Recipe, lazy
from firstdiff.align.samples import Noise, places, widened
from firstdiff.align.solution import Solution
from firstdiff.align.solver import SAME, share_same, solve
from firstdiff.align.strategy import Strategy
from firstdiff.trace import Source

_SAMPLE = 4096


def solve_shards(
    references: Sequence[Source],
    candidates: Sequence[Source],
    *,
    dims: tuple[str | None, str | None] = (None, None),
    noise: Noise | None = None,
    strategies: Sequence[Strategy] | None = None,
    hints: Sequence[Alignment] = (),
    deadline: float | None = None,
) -> Solution:
    """How the tensors of the ranks on one side, or on both, make up one and the same tensor.

    references, candidates: what each rank holds, in the order of the ranks; a single one is whole
    dims: what each side states about the axes of what a rank holds, such as `b s h[tp] d`; believed first, and checked
    hints: recipes proven on other rows, tried before any search; the best one stands where nothing fits
    deadline: the `time.perf_counter()` at which the search stops; the solution is then not `complete`
    """
    options = Options(dims, noise, strategies, deadline)
    parts = Parts(references, candidates)
    if len(references) == len(candidates) == 1:
        return solve(
            references[0],
            candidates[0],
            dims=dims,
            noise=noise,
            strategies=strategies,
            hints=hints,
            deadline=deadline,
        )
    stated = _stated(parts, options)
    if stated is not None and stated.fits and stated.forced:
        return stated
    tried = Hints(hints, references, candidates, noise)
    found = _replicas(parts, replace(options, hints=[_of_one_copy(hint, len(parts.parts)) for hint in hints]))
    if found is None or not found.fits:
        hinted = tried.fitting()
        if hinted is not None:
            return hinted
        joined = solve_joined(parts, _joins(parts), replace(options, dims=(None, None)))
        found = joined if found is None or joined.fits else found
    found = tried.instead_of(found)
    if stated is None or stated.alignment == found.alignment:
        return found
    if not found.fits:
        return stated
    said = " and ".join(text for text in dims if text)
    return replace(found, notes=(*found.notes, f"dims say {said}, which does not fit the values"))


def _stated(parts: Parts, options: Options) -> Solution | None:
    """What follows from marks such as `[tp]`, with the rest solved."""
    joins = []
    for sources, text, others in (
        (parts.references, options.dims[0], parts.candidates),
        (parts.candidates, options.dims[1], parts.references),
    ):
        shapes = [source.shape for source in sources]
        whole = others[0].shape if len(others) == 1 else None
        join = Recipe() if len(sources) == 1 else Dims.parse(text).join(shapes, whole) if text else None
        if join is None:
            return None
        joins.append(join)
    found = solve_after(Alignment(*joins), parts, options)
    return None if found.alignment is None else replace(found, declared=True)


def _replicas(parts: Parts, options: Options) -> Solution | None:
    """Every rank holds the whole: each copy is compared, and how far the copies are apart is said."""
    copies = [lazy(source) for source in parts.parts]
    if len({copy.shape for copy in copies}) > 1 or copies[0].size != parts.whole.size or not copies[0].size:
        return None
    same = [share_same(copies[0], copy, options.noise) >= SAME for copy in copies]
    if 2 * sum(same) <= len(same):
        return None
    one = Parts([copies[0]], parts.candidates) if parts.on_reference else Parts(parts.references[:1], [copies[0]])
    found = solve_after(Alignment(), one, options)
    if found.alignment is None:
        return None
    of_parts, of_whole = found.alignment.reference, found.alignment.candidate
    if not parts.on_reference:
        of_parts, of_whole = of_whole, of_parts
    repeat = _repeated(len(copies))
    return replace(
        found,
        alignment=parts.placed(of_parts.then(Stack()), of_whole.then(repeat)),
        fits=found.fits and all(same),
        notes=(*found.notes, _deviation(copies)),
    )


def _repeated(count: int) -> Rearrange:
    return Rearrange.parse(f"... -> r={count} ...")


def _of_one_copy(hint: Alignment, count: int) -> Alignment:
    """The recipe of a single copy, from that of all copies; any other recipe as it is."""
    last = (Stack(), _repeated(count))
    sides = [side.steps[:-1] if side.steps[-1:] and side.steps[-1] in last else side.steps for side in hint.sides]
    return Alignment(*map(Recipe, sides))


def _deviation(copies: Sequence[Source]) -> str:
    flat = places(copies[0].size, _SAMPLE)
    values = [widened(lazy(copy).take(flat)) for copy in copies]
    with np.errstate(invalid="ignore"):
        apart = [float(np.nanmax(np.abs(value - values[0]), initial=0.0)) for value in values]
    worst = int(np.argmax(apart))
    if apart[worst] == 0:
        return f"the {len(copies)} copies are equal at all {flat.size:,} places looked at"
    return f"the {len(copies)} copies differ: number {worst} is up to {apart[worst]:.3g} off number 0"


def _joins(parts: Parts) -> Iterator[Alignment]:
    """The ways to put the parts together, the likeliest for the sizes first."""
    if len(parts.references) == 1 or len(parts.candidates) == 1:
        yield from (parts.placed(join) for join in _ways(parts.parts, parts.whole))
        return
    sides = (_side_by_side(parts.references, parts.candidates[0]), _side_by_side(parts.candidates, parts.references[0]))
    alike = sorted(product(*sides), key=lambda pair: str(pair[0]) != str(pair[1]))
    yield from (Alignment(*pair) for pair in alike)


def _ways(sources: Sequence[Source], whole: Source) -> list[Recipe]:
    """Sums are for parts as large as the whole: whatever is smaller, or in parts on both sides, they would blur."""
    joins = _side_by_side(sources, whole)
    return [Recipe((Sum(),)), *joins] if _one_shape(sources) and sources[0].size == whole.size else joins


def _side_by_side(sources: Sequence[Source], whole: Source) -> list[Recipe]:
    joins = [Recipe((Concat(axis),)) for axis in concat_axes([source.shape for source in sources], whole.shape)]
    return [*joins, Recipe((Stack(),))] if _one_shape(sources) else joins


def _one_shape(sources: Sequence[Source]) -> bool:
    return len({source.shape for source in sources}) == 1
