"""Find the slicing or rearrangement that turns one recorded tensor into another, by the reference's values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Move = Callable[[np.ndarray], np.ndarray]

# sorting more than this takes long
_MOST_ELEMENTS = 1 << 21
# values that come twice leave open which of them went where
_MOST_TWINS = 0.001


def find_move(source: np.ndarray, result: np.ndarray) -> Move | None:
    """A function that takes the elements of the result out of the source; None where they are not all in it."""
    if source.size == result.size and np.array_equal(source.reshape(result.shape), result):
        return lambda array: array.reshape(result.shape)
    if max(source.size, result.size) > _MOST_ELEMENTS or not source.size or not result.size:
        return None
    index = _split_and_turned(source, result)
    index = _by_value(source, result) if index is None else index
    if index is None:
        return None
    return lambda array: np.asarray(array).reshape(-1)[index]


def _split_and_turned(source: np.ndarray, result: np.ndarray) -> np.ndarray | None:
    """Heads split off an axis and moved to the front, or back."""
    if source.size != result.size:
        return None
    numbers = np.arange(source.size)
    whole = tuple(size for size in result.shape)
    for order in _ORDERS.get(result.ndim, ()):
        shape = tuple(whole[order.index(axis)] for axis in range(len(whole)))
        moved = source.reshape(shape).transpose(order)
        if np.array_equal(moved, result):
            return numbers.reshape(shape).transpose(order)
    for order in _ORDERS.get(source.ndim, ()):
        if np.array_equal(source.transpose(order).reshape(result.shape), result):
            return numbers.reshape(source.shape).transpose(order).reshape(result.shape)
    return None


# result axis -> source axis
_ORDERS: dict[int, tuple[tuple[int, ...], ...]] = {
    2: ((1, 0),),
    3: ((0, 2, 1), (1, 0, 2), (2, 0, 1), (1, 2, 0)),
    4: ((0, 2, 1, 3), (0, 2, 3, 1), (0, 1, 3, 2), (0, 3, 1, 2)),
}


def _by_value(source: np.ndarray, result: np.ndarray) -> np.ndarray | None:
    if source.dtype != result.dtype or source.dtype.kind not in "fiu":
        return None
    flat, wanted = source.reshape(-1), result.reshape(-1)
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    twins = np.count_nonzero(ordered[1:] == ordered[:-1])
    if twins > _MOST_TWINS * flat.size:
        return None
    at = np.minimum(np.searchsorted(ordered, wanted), flat.size - 1)
    return order[at].reshape(result.shape) if np.array_equal(ordered[at], wanted) else None
