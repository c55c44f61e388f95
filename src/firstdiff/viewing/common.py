"""Suggest mappings for a pair: the solver's layout, and every order of the axes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

from firstdiff.align import Alignment, solve
from firstdiff.errors import UsageError
from firstdiff.measure import measure_pair
from firstdiff.trace import ArraySource, Source

_MOST_AXES = 5
_MOST_ELEMENTS = 1 << 20
# what still counts as the same values, relative to the length of the reference
_FITS = 1e-2


@dataclass(frozen=True, slots=True)
class TriedMapping:
    """A recipe and how well the sides agree through it, on as many elements as one look takes."""

    name: str
    recipe: str
    fits: bool
    cosine: float | None
    max_abs: float | None


def common_mappings(reference: Source, candidate: Source) -> list[TriedMapping]:
    """Those that the shapes allow, the best first."""
    tried: dict[str, TriedMapping] = {}
    for name, recipe in _recipes(reference, candidate):
        if recipe not in tried:
            found = _try(name, recipe, reference, candidate)
            if found is not None:
                tried[recipe] = found
    return sorted(tried.values(), key=lambda one: (not one.fits, -(one.cosine or -1.0)))


def _recipes(reference: Source, candidate: Source) -> Iterator[tuple[str, str]]:
    solution = solve(reference, candidate)
    if solution.alignment is not None:
        yield "found from the values", str(solution.alignment)
    if reference.shape == candidate.shape:
        yield "as they lie", "identity"
    axes = len(candidate.shape)
    names = " ".join("abcdefgh"[:axes])
    if axes == len(reference.shape) <= _MOST_AXES:
        for order in permutations(range(axes)):
            if order != tuple(range(axes)) and tuple(candidate.shape[at] for at in order) == reference.shape:
                yield _named(order), f"{names} -> {' '.join(names.split()[at] for at in order)}"


def _named(order: tuple[int, ...]) -> str:
    last = len(order) - 1
    swapped = [at for at, came in enumerate(order) if at != came]
    if swapped == [last - 1, last]:
        return "last two axes swapped"
    if len(swapped) == 2:
        return f"axes {swapped[0]} and {swapped[1]} swapped"
    return "axes in another order"


def _try(name: str, recipe: str, reference: Source, candidate: Source) -> TriedMapping | None:
    try:
        ref, cand = Alignment.parse(recipe).apply([reference], [candidate])
    except UsageError:
        return None
    if ref.size != cand.size or not ref.size:
        return None
    stop = min(ref.size, _MOST_ELEMENTS)
    metrics = measure_pair(ArraySource(ref.window(0, stop)), ArraySource(cand.window(0, stop))).metrics
    fits = metrics.rel_l2 is not None and metrics.rel_l2 <= _FITS
    return TriedMapping(name, recipe, fits, metrics.cosine, metrics.max_abs)
