"""Find elements of a tensor: largest, non-finite, beyond the tolerance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from firstdiff.measure.numerics import coarser_grid, scalar, to_numbers
from firstdiff.trace import Source
from firstdiff.viewing.slice import difference, real, weight

_WINDOW = 1 << 20

Kind = Literal["value", "range", "nan", "inf", "mismatch"]


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a pair; values are Python's own numbers, None on a side that is not there."""

    index: tuple[int, ...]
    flat: int
    reference: Any
    candidate: Any
    difference: float | None
    relative: float | None
    ulp: float | None


@dataclass(frozen=True, slots=True)
class ElementQuery:
    """A query for elements.

    side: which of the two sources `value`, `range`, `nan` and `inf` look at
    low, high: the value, or the ends of the range; an end that is None is open
    atol, rtol, equal_nan: what is allowed, for `mismatch`
    """

    kind: Kind
    side: int = 0
    low: int | float | None = None
    high: int | float | None = None
    atol: float = 0.0
    rtol: float = 0.0
    equal_nan: bool = False


def largest(reference: Source, candidate: Source, count: int) -> list[Element]:
    """The elements that differ most, the largest first; those where only one side is NaN come before all."""
    places = np.zeros(0, np.int64)
    sizes = np.zeros(0)
    for start, ref, cand in _windows(reference, candidate):
        found = weight(difference(ref, cand))
        least = float(sizes[-1]) if sizes.size == count else 0.0
        here = np.flatnonzero(found > least)
        if not here.size:
            continue
        places, sizes = np.concatenate([places, here + start]), np.concatenate([sizes, found[here]])
        order = np.lexsort((places, -sizes))[:count]
        places, sizes = places[order], sizes[order]
    return [element(reference, candidate, int(place)) for place in places]


def search(sources: tuple[Source, ...], sought: ElementQuery, *, after: int = -1, count: int = 1) -> list[Element]:
    """The next elements behind `after` that fit."""
    reference, candidate = sources[0], sources[-1]
    found: list[Element] = []
    fits = _fitting(sought)
    for start, ref, cand in _windows(reference, candidate, after + 1):
        for place in np.flatnonzero(fits(ref, cand))[: count - len(found)]:
            found.append(element(reference, candidate if len(sources) > 1 else None, start + int(place)))
        if len(found) >= count:
            break
    return found


def element(reference: Source, candidate: Source | None, flat: int) -> Element:
    """Both values at a place, and how far apart they are."""
    index = tuple(int(at) for at in np.unravel_index(flat, reference.shape)) if reference.shape else ()
    ref = reference.window(flat, flat + 1)
    if candidate is None:
        return Element(index, flat, scalar(ref), None, None, None, None)
    cand = candidate.window(flat, flat + 1)
    apart = float(difference(ref, cand)[0])
    size, base = abs(apart), float(np.abs(to_numbers(ref))[0])
    relative = size / base if base else (0.0 if size == 0.0 else None)
    return Element(index, flat, scalar(ref), scalar(cand), apart, relative, _ulp(reference, candidate, size, base))


def _ulp(reference: Source, candidate: Source, size: float, base: float) -> float | None:
    grid = coarser_grid(reference.dtype, candidate.dtype)
    if grid is None or not np.isfinite(base) or not np.isfinite(size):
        return None
    _, exponent = np.frexp(base)
    return float(size / max(float(np.ldexp(1.0, int(exponent) - 1)), grid.tiny) / grid.eps)


def _windows(reference: Source, candidate: Source, begin: int = 0) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    for start in range(max(begin, 0), reference.size, _WINDOW):
        stop = min(start + _WINDOW, reference.size)
        ref = reference.window(start, stop)
        yield start, ref, ref if candidate is reference else candidate.window(start, stop)


Fits = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _fitting(sought: ElementQuery) -> Fits:
    if sought.kind == "mismatch":
        return lambda reference, candidate: _outside(reference, candidate, sought)
    return lambda reference, candidate: _wanted((reference, candidate)[sought.side], sought)


def _outside(reference: np.ndarray, candidate: np.ndarray, sought: ElementQuery) -> np.ndarray:
    allowed = sought.atol + sought.rtol * np.abs(to_numbers(reference))
    outside = weight(difference(reference, candidate)) > np.where(np.isfinite(allowed), allowed, 0.0)
    return outside if sought.equal_nan else outside | np.isnan(real(reference))


def _wanted(values: np.ndarray, sought: ElementQuery) -> np.ndarray:
    if sought.kind == "value":
        return _equal(values, 0.0 if sought.low is None else sought.low)
    numbers = real(values)
    if sought.kind == "nan":
        return np.asarray(np.isnan(numbers))
    if sought.kind == "inf":
        return np.asarray(np.isinf(numbers))
    low, high = (-np.inf if sought.low is None else sought.low), (np.inf if sought.high is None else sought.high)
    return np.asarray((numbers >= low) & (numbers <= high))


def _equal(values: np.ndarray, wanted: int | float) -> np.ndarray:
    """Equal to the number as the tensor's own type holds it."""
    if values.dtype.kind in "iub":
        return np.asarray(values == wanted)
    if values.dtype.kind == "c":
        return np.asarray(values == values.dtype.type(wanted))
    with np.errstate(over="ignore"):
        return np.asarray(values == np.asarray(wanted).astype(values.dtype))
