"""Find how one tensor is a view of another: in another shape or order of axes, a part of it, or repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations

import numpy as np

_MOST_AXES = 5  # whose orders are tried
_MOST_TIMES = 32
_MOST_PLACES = 4096  # of an axis at which a part may begin


def view_of(source: np.ndarray, view: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
    """Find how a tensor is another in another shape or order of axes, a part of it, or repeated; None if it is not."""
    if max(source.ndim, view.ndim) > _MOST_AXES:
        return None
    if source.size == view.size:
        return next(_whole_views(source, view), None)
    return next(_repeated(source, view) if source.size < view.size else _parts(source, view), None)


def _whole_views(source: np.ndarray, view: np.ndarray) -> Iterator[Callable[[np.ndarray], np.ndarray]]:
    """Split or join axes, then change their order; or the other way round."""
    for axes in permutations(range(view.ndim)):
        before = tuple(view.shape[axes.index(axis)] for axis in range(view.ndim))
        if _equal(source.reshape(before).transpose(axes), view):
            yield partial(_seen, shape=before, axes=axes)
    start = view.reshape(-1)
    for axes in permutations(range(source.ndim)):
        turned = source.transpose(axes)
        line = turned[(0,) * (source.ndim - 1)] if source.size else turned.reshape(-1)
        if np.array_equal(line, start[: line.size]) and np.array_equal(turned.reshape(view.shape), view):
            yield partial(_turned, axes=axes, shape=view.shape)


def _parts(source: np.ndarray, view: np.ndarray) -> Iterator[Callable[[np.ndarray], np.ndarray]]:
    """A range of one axis, or one index of it, of which there must be no two."""
    for axis, length in enumerate(source.shape):
        rest = source.shape[:axis] + source.shape[axis + 1 :]
        count = view.shape[axis] if view.ndim == source.ndim else 1
        if length > _MOST_PLACES or (view.shape != rest and view.shape != (*rest[:axis], count, *rest[axis:])):
            continue
        cuts = (partial(_cut, axis=axis, start=at, count=count, shape=view.shape) for at in range(length - count + 1))
        fitting = [cut for cut in cuts if _equal(cut(source), view)]
        if len(fitting) == 1:
            yield fitting[0]


def _repeated(source: np.ndarray, view: np.ndarray) -> Iterator[Callable[[np.ndarray], np.ndarray]]:
    """Each index of one axis several times in a row, as heads of keys that several heads of queries share."""
    times, rest = divmod(view.size, max(source.size, 1))
    if rest or not source.size or times > _MOST_TIMES:
        return
    for axis, length in enumerate(view.shape):
        if length % times:
            continue
        once = view[(slice(None),) * axis + (slice(None, None, times),)]
        seen = view_of(source, once) if np.array_equal(np.repeat(once, times, axis), view) else None
        if seen is not None:
            yield partial(_several, seen=seen, times=times, axis=axis)


def _several(values: np.ndarray, *, seen: Callable[[np.ndarray], np.ndarray], times: int, axis: int) -> np.ndarray:
    return np.repeat(seen(values), times, axis)


def _seen(values: np.ndarray, *, shape: tuple[int, ...], axes: tuple[int, ...]) -> np.ndarray:
    return values.reshape(shape).transpose(axes)


def _turned(values: np.ndarray, *, axes: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    return values.transpose(axes).reshape(shape)


def _cut(values: np.ndarray, *, axis: int, start: int, count: int, shape: tuple[int, ...]) -> np.ndarray:
    return values[(slice(None),) * axis + (slice(start, start + count),)].reshape(shape)


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    """As numpy's, but most that differ are told by their first row."""
    if one.ndim > 1 and len(one) and not np.array_equal(one[0, ..., :1], other[0, ..., :1]):
        return False
    return bool(np.array_equal(one, other))
