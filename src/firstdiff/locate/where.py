"""Where inside a tensor the error sits, in words and as data."""

from __future__ import annotations

from math import prod

import numpy as np

from firstdiff.locate.patterns import Pattern, pattern_of
from firstdiff.locate.profile import Profile, profile_of
from firstdiff.locate.row import MeasuredPair
from firstdiff.schema import Dimension, Where

_MOST_INDICES = 64
_ONE_BY_ONE = 4
_SUBJECT = {"beyond": "the error", "unequal": "the difference", "nonfinite": "what is not finite"}


def where_of(row: MeasuredPair) -> Where | None:
    """Where a row's error sits; None where there is nothing to say: no elements, or sides of different shapes."""
    if row.sources is None or row.sources[0].shape != row.sources[1].shape or not row.sources[0].size:
        return None
    profile = profile_of(row.sources, row.metrics, row.tolerance)
    if profile.elements == 0 or profile.first is None:
        return None
    shape = row.sources[0].shape
    own = row.reference is not None and row.reference.source is not None and row.reference.source.shape == shape
    names = _axis_names(row.record.dims if row.record and own else None, len(shape))
    return _described(profile, shape, names)


def _described(profile: Profile, shape: tuple[int, ...], names: list[str]) -> Where:
    subject = _SUBJECT[profile.kind]
    found = {axis: pattern for axis, sums in enumerate(profile.axes) if (pattern := pattern_of(sums))}
    dims = tuple(_dimension(axis, pattern) for axis, pattern in found.items())
    if profile.elements == 1:
        return Where(f"a single element, at index {list(profile.first or ())}", dims)
    diagonal = _diagonal(profile, shape, found)
    if diagonal:
        return Where(f"all of {subject} is {diagonal}", dims)
    if not found:
        share = profile.elements / prod(shape)
        return Where(f"spread over the whole tensor: {_percent(share)} of the elements differ")
    if profile.elements <= _ONE_BY_ONE and all(axis in found for axis, length in enumerate(shape) if length > 1):
        return Where(f"{profile.elements} elements, the first at index {list(profile.first or ())}", dims)
    least = min(pattern.share for pattern in found.values())
    much = "all" if least > 0.9995 else _percent(least)
    parts = [f"{pattern.words(names[axis])} of {_axis(axis, len(shape))}" for axis, pattern in found.items()]
    return Where(f"{much} of {subject} is in {', '.join(parts)}", dims)


def _diagonal(profile: Profile, shape: tuple[int, ...], found: dict[int, Pattern]) -> str | None:
    """Words for a diagonal, or for one side of it: what masks leave behind."""
    sums = profile.diagonals
    last = len(shape) - 1
    if sums is None or sums.sum() == 0 or profile.elements < 3 or not _crosses(found, last):
        return None
    of = "of the last two axes"
    touched = np.flatnonzero(sums > 0) - (shape[-2] - 1)
    low, high = int(touched[0]), int(touched[-1])
    if low == high:
        side = "above" if low > 0 else "below"
        return f"on the diagonal {of}" if low == 0 else f"on the diagonal {abs(low)} {side} the main one, {of}"
    if shape[-1] != shape[-2] or touched.size < 2:
        return None
    if low >= 1 and _tells_more(found, last):
        return f"above the diagonal {of}: where the last index is greater than the one before, as behind a causal mask"
    if high <= -1 and _tells_more(found, last):
        return f"below the diagonal {of}: where the last index is smaller than the one before"
    return None


def _crosses(found: dict[int, Pattern], last: int) -> bool:
    """A diagonal is seen only where the error is on several indices of both axes."""
    return not any(axis in found and found[axis].form == "one" for axis in (last - 1, last))


def _tells_more(found: dict[int, Pattern], last: int) -> bool:
    """A triangle leaves out the first column and the last row, or the other way round; a smaller part says more."""
    return all(len(found[axis].indices) >= found[axis].length - 2 for axis in (last - 1, last) if axis in found)


def _axis_names(dims: str | None, ndim: int) -> list[str]:
    """What to call an index of each axis: as declared, else by where the axis stands."""
    declared = dims.split() if dims else []
    if len(declared) == ndim:
        return [_NOUNS.get(name.lower(), name) for name in declared]
    names = ["index"] * ndim
    if ndim >= 2:
        names[0], names[-1] = "row", "channel"
    return names


_NOUNS = {
    **dict.fromkeys(("b", "batch", "n"), "batch row"),
    **dict.fromkeys(("s", "t", "seq", "l", "token", "tokens", "time"), "token"),
    **dict.fromkeys(("head", "heads"), "head"),
    **dict.fromkeys(("c", "d", "channel", "channels", "hidden", "dim"), "channel"),
    **dict.fromkeys(("e", "expert", "experts"), "expert"),
}


def _axis(axis: int, ndim: int) -> str:
    if ndim == 1:
        return "its only axis"
    return "the last axis" if axis == ndim - 1 else "the first axis" if axis == 0 else f"axis {axis}"


def _dimension(axis: int, pattern: Pattern) -> Dimension:
    return Dimension(axis, pattern.indices[:_MOST_INDICES], round(pattern.share, 6))


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
