"""Slices of both sides with dimensions mapped by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from math import sqrt

import numpy as np

from firstdiff.align import Alignment, solve
from firstdiff.align.mapping import Mapped, Slice, map_slices
from firstdiff.errors import UsageError
from firstdiff.measure import measure_pair, measure_statistics
from firstdiff.measure.numerics import to_numbers
from firstdiff.schema import Statistics
from firstdiff.trace import ArraySource, Source
from firstdiff.trace.slices import parse_slice

_MOST = 1 << 24
# unrelated values reach a cosine of up to about this over the root of their number
_BY_CHANCE = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedView:
    reference: Statistics
    candidate: Statistics
    max_abs: float | None
    mean_abs: float | None
    cosine: float | None
    identical: bool
    differing: int
    elements: int
    covers: bool
    words: str


def held(text: str, shown: tuple[int, ...], source: Source) -> Slice:
    """From `0,3,:,:` and the dimensions that are shown, in the order they are shown in."""
    parts = parse_slice(text, source.shape)
    if len(parts) != len(source.shape):
        raise UsageError(f"the slice {text!r} must have {len(source.shape)} parts, as {list(source.shape)} has")
    fixed = {dim: part for dim, part in enumerate(parts) if isinstance(part, int)}
    if {*shown, *fixed} != set(range(len(source.shape))):
        raise UsageError(f"the slice {text!r} must hold every dimension that is not shown")
    size = int(np.prod([source.shape[dim] for dim in shown if 0 <= dim < len(source.shape)]))
    if size > _MOST:
        raise UsageError(f"{size:,} elements are too many to map at once; show other dimensions")
    return Slice(shown, fixed)


def mapped_view(reference: Source, candidate: Source, of_reference: Slice, of_candidate: Slice) -> MappedView:
    """Statistics of both slices and how far apart they are."""
    found = map_slices(reference, candidate, of_reference, of_candidate)
    identical = found.covers and found.differing == 0
    cosine = _cosine(found)
    return MappedView(
        reference=measure_statistics(ArraySource(np.ascontiguousarray(found.reference))),
        candidate=measure_statistics(ArraySource(np.ascontiguousarray(found.candidate))),
        max_abs=found.max_abs,
        mean_abs=found.mean_abs,
        cosine=cosine,
        identical=identical,
        differing=found.differing,
        elements=found.reference.size,
        covers=found.covers,
        words=_words(found, cosine, identical),
    )


def _cosine(found: Mapped) -> float | None:
    reference, candidate = (to_numbers(side).reshape(-1) for side in (found.reference, found.candidate))
    finite = np.isfinite(reference) & np.isfinite(candidate)
    reference, candidate = reference[finite], candidate[finite]
    norms = float(np.linalg.norm(reference) * np.linalg.norm(candidate)) if reference.size else 0.0
    return float(np.clip(np.vdot(reference, candidate).real / norms, -1.0, 1.0)) if norms else None


def _words(found: Mapped, cosine: float | None, identical: bool) -> str:
    part = "" if found.covers else " where they overlap (one of them is larger)"
    if not found.reference.size:
        return "There is nothing to compare: one of the slices has no elements."
    if identical:
        return "Identical: every element is the same."
    if found.differing == 0:
        return f"The same{part}."
    if cosine is not None and cosine < -0.9:
        return f"The same with the other sign{part}."
    if cosine is None or cosine < max(0.5, _BY_CHANCE / sqrt(found.reference.size)):
        return f"Unrelated, as far as these slices tell{part}."
    if cosine < 0.9:
        return f"Alike, but far from the same{part}: this is probably not the right mapping."
    if cosine < 0.9999:
        return f"Close{part}: the same data with an error in it, or neighbouring data."
    return f"The same but for small differences{part}: this mapping fits."


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
