"""Locate the error inside a tensor, as a sentence and as data."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np

from firstdiff.locate.row import MeasuredPair
from firstdiff.measure.numerics import to_numbers
from firstdiff.schema import Dimension, Metrics, Tolerance, Where
from firstdiff.trace import Source

Kind = Literal["beyond", "unequal", "nonfinite"]

_WINDOW = 1 << 18
_WIDEST_DIAGONAL = 1 << 13
_LARGEST_WEIGHT = 1e9


@dataclass(frozen=True, slots=True)
class Profile:
    """The distribution of the error over a tensor.

    kind: what counts: differences beyond what is allowed, unequal elements, or elements finite on one side only
    axes: for each axis, the error at each of its indices
    diagonals: the same for each diagonal of the last two axes, from the lower left corner; None for tensors without
    elements: how many have any
    first: index of the first that has
    """

    kind: Kind
    axes: tuple[np.ndarray, ...]
    diagonals: np.ndarray | None
    elements: int
    first: tuple[int, ...] | None

    @property
    def total(self) -> float:
        return float(self.axes[0].sum()) if self.axes else float(self.elements)


def profile_of(sources: tuple[Source, Source], metrics: Metrics | None, tolerance: Tolerance | None) -> Profile:
    """Weigh every element by its difference over what is allowed, and sum along each axis."""
    shape = sources[0].shape
    kind = _kind(metrics, tolerance)
    sums = _Sums(shape)
    for start in range(0, prod(shape), sums.step):
        stop = min(start + sums.step, prod(shape))
        window = sources[0].window(start, stop), sources[1].window(start, stop)
        sums.add(start, _weights(*window, kind, tolerance, strict=bool(metrics and metrics.mismatched)))
    first = None if sums.first is None else tuple(int(at) for at in np.unravel_index(sums.first, shape))
    return Profile(kind, tuple(sums.axes), sums.diagonals, sums.elements, first)


class _Sums:
    """Collects weights window by window: whole rows of the leading axis, or parts of one where a row is long."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.axes = [np.zeros(length) for length in shape]
        self.elements = 0
        self.first: int | None = None
        self._shape = shape
        square = len(shape) >= 2 and min(shape[-2:]) > 1 and max(shape[-2:]) <= _WIDEST_DIAGONAL
        self.diagonals = np.zeros(sum(shape[-2:]) - 1) if square else None
        self._tail = self._inner_axes()
        self.step = max(1, _WINDOW // self._tail) * self._tail

    def _inner_axes(self) -> int:
        """Elements of the largest stretch of whole trailing axes that fits in a window."""
        size = 1
        for length in reversed(self._shape):
            if size * length > _WINDOW:
                break
            size *= max(length, 1)
        return size

    def add(self, start: int, weights: np.ndarray) -> None:
        there = np.flatnonzero(weights)
        if there.size == 0:
            return
        self.elements += there.size
        if self.first is None:
            self.first = start + int(there[0])
        if there.size * 8 < weights.size:
            self._add_few(start + there, weights[there])
        else:
            self._add_many(start, weights)

    def _add_few(self, places: np.ndarray, weights: np.ndarray) -> None:
        index = np.unravel_index(places, self._shape) if self._shape else ()
        for axis, at in enumerate(index):
            self.axes[axis] += np.bincount(at, weights, minlength=self._shape[axis])
        if self.diagonals is not None:
            offset = index[-1] - index[-2] + self._shape[-2] - 1
            self.diagonals += np.bincount(offset, weights, minlength=self.diagonals.size)

    def _add_many(self, start: int, weights: np.ndarray) -> None:
        """Sum the trailing axes as an array; only one number for each stretch is left to place on the outer ones."""
        inner = self._inner_shape()
        block = weights.reshape(-1, *inner)
        for axis in range(len(inner)):
            others = tuple(other for other in range(block.ndim) if other != axis + 1)
            self.axes[len(self._shape) - len(inner) + axis] += block.sum(axis=others)
        outer = self._shape[: len(self._shape) - len(inner)]
        if outer:
            stretches = block.reshape(block.shape[0], -1).sum(axis=1)
            places = np.unravel_index(start // self._tail + np.arange(stretches.size), outer)
            for axis, at in enumerate(places):
                self.axes[axis] += np.bincount(at, stretches, minlength=outer[axis])
        if self.diagonals is not None and len(inner) >= 2:
            self._add_diagonals(block.reshape(-1, *inner[-2:]).sum(axis=0))
        elif self.diagonals is not None:
            self.diagonals = None  # rows longer than a window

    def _add_diagonals(self, plane: np.ndarray) -> None:
        assert self.diagonals is not None, "there is a plane"
        rows, columns = plane.shape
        offset = np.arange(columns)[None, :] - np.arange(rows)[:, None] + rows - 1
        self.diagonals += np.bincount(offset.reshape(-1), plane.reshape(-1), minlength=self.diagonals.size)

    def _inner_shape(self) -> tuple[int, ...]:
        size, kept = 1, 0
        while kept < len(self._shape) and size < self._tail:
            kept += 1
            size *= self._shape[-kept]
        return self._shape[len(self._shape) - kept :]


def _kind(metrics: Metrics | None, tolerance: Tolerance | None) -> Kind:
    if metrics and (metrics.nan_reference, metrics.inf_reference) != (metrics.nan_candidate, metrics.inf_candidate):
        return "nonfinite"
    return "unequal" if tolerance is None or tolerance.atol == tolerance.rtol == 0 else "beyond"


def _weights(
    reference: np.ndarray, candidate: np.ndarray, kind: Kind, tolerance: Tolerance | None, *, strict: bool
) -> np.ndarray:
    """`strict`: differences within what is allowed weigh nothing."""
    with np.errstate(all="ignore"):
        if kind == "unequal":
            unequal: np.ndarray = (reference != candidate).astype(np.float64)
            return unequal
        r, c = to_numbers(reference), to_numbers(candidate)
        if kind == "nonfinite":
            differs: np.ndarray = (np.isfinite(r) != np.isfinite(c)).astype(np.float64)
            return differs
        assert tolerance is not None, "something is allowed"
        weights: np.ndarray = np.abs(c - r) / (tolerance.atol + tolerance.rtol * np.abs(r))
        weights[np.isnan(weights) | (weights <= (1.0 if strict else 0.0))] = 0.0
        weights[weights > _LARGEST_WEIGHT] = _LARGEST_WEIGHT  # where nothing is allowed they are infinite
        return weights


Form = Literal["one", "from", "below", "block", "every", "several"]

_ALL = 0.999
_MOST = 0.95
_FEW = 8
_DENSE = 0.9


@dataclass(frozen=True, slots=True)
class Pattern:
    """Indices of one axis that hold a share of the error; `step` apart in the form `every`."""

    form: Form
    indices: tuple[int, ...]
    share: float
    length: int
    step: int = 1

    def words(self, noun: str) -> str:
        """`channel 3`, `tokens >= 12`, `every 2nd channel from 1`."""
        first, last = self.indices[0], self.indices[-1]
        plural = f"{noun}s" if not noun.endswith("x") else f"{noun[:-2]}ices"
        if self.form == "one":
            return f"the last {noun} ({first})" if first == self.length - 1 else f"{noun} {first}"
        if self.form == "from":
            return f"{plural} >= {first}"
        if self.form == "below":
            return f"{plural} < {last + 1}"
        if self.form == "block":
            return f"{plural} {first} to {last}"
        if self.form == "every":
            return f"every {_ordinal(self.step)} {noun} from {first} on"
        return f"{plural} {', '.join(map(str, self.indices[:-1]))} and {last}"


def pattern_of(sums: np.ndarray) -> Pattern | None:
    """The part of an axis that the error is confined to; None if there is no such part."""
    total = float(sums.sum())
    if sums.size < 2 or total == 0:
        return None
    touched = np.flatnonzero(sums > 0)
    whole = _form(touched, sums.size)
    if whole is not None:
        return _made(whole, sums, total)
    order = np.argsort(-sums, kind="stable")
    held = np.cumsum(sums[order]) / total
    for share in (_ALL, _MOST):
        count = int(np.searchsorted(held, share)) + 1
        if count <= max(1, sums.size // 4):
            form = _form(np.sort(order[:count]), sums.size)
            if form is not None:
                return _made(form, sums, total)
    return None


def _made(found: tuple[Form, np.ndarray, int], sums: np.ndarray, total: float) -> Pattern:
    form, indices, step = found
    share = float(sums[indices].sum()) / total
    return Pattern(form, tuple(int(at) for at in indices), share, sums.size, step)


def _form(indices: np.ndarray, length: int) -> tuple[Form, np.ndarray, int] | None:
    first, last = int(indices[0]), int(indices[-1])
    if indices.size == 1:
        return "one", indices, 1
    span = last - first + 1
    if span < length and indices.size >= _DENSE * span:
        form: Form = "from" if last == length - 1 else "below" if first == 0 else "block"
        return form, np.arange(first, last + 1), 1
    steps = np.diff(indices)
    step = int(steps[0])
    if step > 1 and bool((steps == step).all()) and indices.size >= 3 and first < step and last >= length - step:
        return "every", indices, step
    if indices.size <= _FEW and indices.size <= length // 2:
        return "several", indices, 1
    return None


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


_MOST_INDICES = 64
_ONE_BY_ONE = 4
_SUBJECT = {"beyond": "the error", "unequal": "the difference", "nonfinite": "what is not finite"}


def where_of(row: MeasuredPair) -> Where | None:
    """Return the location of a row's error; None for no elements, or sides of different shapes."""
    if row.sources is None or row.sources[0].shape != row.sources[1].shape or not row.sources[0].size:
        return None
    profile = profile_of(row.sources, row.metrics, row.tolerance)
    if profile.elements == 0 or profile.first is None:
        return None
    shape = row.sources[0].shape
    own = row.reference is not None and row.reference.source is not None and row.reference.source.shape == shape
    names = _axis_names(row.record.dims if row.record and own else None, len(shape))
    channel = _failed_channel(row)
    if channel is not None and channel < shape[-1]:
        pattern = Pattern("one", (channel,), 1.0, shape[-1])
        dims = (_dimension(len(shape) - 1, pattern),)
        return Where(f"{pattern.words(names[-1])} of {_axis(len(shape) - 1, len(shape))} stands out", dims)
    return _described(profile, shape, names)


def _failed_channel(row: MeasuredPair) -> int | None:
    """Return the channel that the verdict is about, where no element is beyond its limit and no other part failed."""
    if row.systematic is None or row.metrics is None or row.metrics.mismatched:
        return None
    failed = row.systematic.failed
    channels = {part.index for part in failed if part.part in ("channel", "odd_channel")}
    if len(channels) != 1 or len(failed) != sum(part.part in ("channel", "odd_channel") for part in failed):
        return None
    return channels.pop()


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
    """Return the noun for an index of each axis: as declared, else by the axis's position."""
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
