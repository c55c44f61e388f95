"""Tensors in parts: try the ways to make one of them, and solve each against the other side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from firstdiff.align.alignment import Alignment
from firstdiff.align.notation import Shape
from firstdiff.align.recipe import Recipe, lazy
from firstdiff.align.samples import Noise
from firstdiff.align.solution import Solution
from firstdiff.align.solver import SAME, share_same, solve
from firstdiff.align.strategy import Strategy, in_order
from firstdiff.errors import UsageError
from firstdiff.trace import Source


@dataclass(frozen=True, slots=True)
class Options:
    """What is passed on to `solve`."""

    dims: tuple[str | None, str | None] = (None, None)
    noise: Noise | None = None
    strategies: Sequence[Strategy] | None = None
    deadline: float | None = None
    hints: Sequence[Alignment] = ()

    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and perf_counter() >= self.deadline


@dataclass(frozen=True, slots=True)
class Parts:
    """A tensor that is compared as one and lies in parts, on one side or on both."""

    references: Sequence[Source]
    candidates: Sequence[Source]

    @property
    def on_reference(self) -> bool:
        """Whether the parts are the reference's; the candidate's if both sides are in parts."""
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
