"""Solve layouts of split tensors: fused q, k and v, gate and up, and the shards of parallel ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from time import perf_counter

import numpy as np

from firstdiff.align.dims import Dims
from firstdiff.align.hints import Hints
from firstdiff.align.notation import Shape
from firstdiff.align.recipe import Alignment, Recipe, lazy
from firstdiff.align.sampling import Noise, sample_positions, widened
from firstdiff.align.solution import Solution
from firstdiff.align.solver import SAME, share_same, solve
from firstdiff.align.steps import Rearrange
from firstdiff.align.steps_axis import Chunks
from firstdiff.align.steps_join import Concat, Pick, Stack, Sum
from firstdiff.align.strategies import Strategy, in_order
from firstdiff.errors import UsageError
from firstdiff.trace import Source


@dataclass(frozen=True, slots=True)
class Options:
    """Options passed on to `solve`."""

    dims: tuple[str | None, str | None] = (None, None)
    noise: Noise | None = None
    strategies: Sequence[Strategy] | None = None
    deadline: float | None = None
    hints: Sequence[Alignment] = ()

    def is_over(self) -> bool:
        """True once the deadline has passed."""
        return self.deadline is not None and perf_counter() >= self.deadline


@dataclass(frozen=True, slots=True)
class Parts:
    """A tensor that is compared as one and lies in parts, on one side or on both."""

    references: Sequence[Source]
    candidates: Sequence[Source]

    @property
    def on_reference(self) -> bool:
        """True if the parts are the reference's; if both sides are in parts, they are the candidate's."""
        return len(self.candidates) == 1

    @property
    def parts(self) -> Sequence[Source]:
        return self.references if self.on_reference else self.candidates

    @property
    def whole(self) -> Source:
        return self.candidates[0] if self.on_reference else self.references[0]

    def placed(self, parts: Recipe, whole: Recipe | None = None) -> Alignment:
        """An alignment with one recipe for the side in parts, and one for the other."""
        other = whole or Recipe()
        return Alignment(parts, other) if self.on_reference else Alignment(other, parts)


def solve_joined(parts: Parts, joins: Iterable[Alignment], options: Options) -> Solution:
    """The first join after which the shapes call for what fits; failing that, any that fits or gives equal shapes."""
    tried: dict[str, None] = {}
    fallback: Solution | None = None
    complete = True
    for join in joins:
        if options.is_over():
            complete = False
            break
        tried[str(join)] = None
        try:
            found = solve_after(join, parts, options)
        except UsageError:
            continue
        if found.fits and found.forced:
            return replace(found, tried=tuple(tried))
        complete &= found.complete
        better = fallback is None or (found.fits and not fallback.fits)
        if better and (found.fits or found.alignment == join):
            fallback = found
        if found.fits:
            usual = tuple(strategy for strategy in in_order(options.strategies) if not strategy.unusual)
            options = replace(options, strategies=usual)
    best = fallback or Solution(alignment=None, fits=False)
    return replace(best, tried=tuple(tried), complete=best.fits or complete)


def solve_after(join: Alignment, parts: Parts, options: Options) -> Solution:
    """Solve what is left once the parts are joined; the solution holds both."""
    reference, candidate = join.reference.apply(parts.references), join.candidate.apply(parts.candidates)
    found = solve(
        reference,
        candidate,
        dims=options.dims,
        noise=options.noise,
        strategies=options.strategies,
        hints=options.hints,
        deadline=options.deadline,
    )
    if found.alignment is None:
        return found
    alignment = Alignment(
        join.reference.then(*found.alignment.reference.steps), join.candidate.then(*found.alignment.candidate.steps)
    )
    return replace(found, alignment=alignment, cause=found.cause or "layout.shard")


def plainly_joined(parts: Parts, joins: Iterable[Alignment], options: Options) -> Solution | None:
    """The first join after which the sides are equal as they are; cheap, since nothing is searched."""
    for join in joins:
        reference, candidate = join.reference.apply(parts.references), join.candidate.apply(parts.candidates)
        if reference.shape == candidate.shape and reference.size:
            same = share_same(lazy(reference), lazy(candidate), options.noise)
            if same >= SAME:
                return Solution(alignment=join, fits=True, agreement=same, confidence=1.0)
    return None


def concat_axes(shapes: Sequence[Shape], whole: Shape) -> list[int]:
    """The axes along which tensors of these shapes can be put together, the likeliest for the whole first."""
    first = shapes[0]
    if any(len(shape) != len(first) for shape in shapes):
        return []
    found = []
    for axis in range(len(first)):
        if all((shape[:axis], shape[axis + 1 :]) == (first[:axis], first[axis + 1 :]) for shape in shapes):
            joined = (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])
            found.append((joined != whole, sorted(_bare(joined)) != sorted(_bare(whole)), axis))
    return [axis for _, _, axis in sorted(found)]


def _bare(shape: Shape) -> list[int]:
    return [n for n in shape if n != 1]


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
    """Find the recipe that makes the fused tensor on one side of the parts on the other.

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
    """Find the recipe that makes one tensor of what ranks hold on one side, or on both.

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
    """Join as marks such as `[tp]` say, and solve the rest."""
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
    flat = sample_positions(copies[0].size, _SAMPLE)
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
