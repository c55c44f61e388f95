"""The error of a pair summed along every axis, in one pass that never holds all of it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np

from firstdiff.measure.numerics import to_numbers
from firstdiff.schema import Metrics, Tolerance
from firstdiff.trace import Source

Kind = Literal["beyond", "unequal", "nonfinite"]

_WINDOW = 1 << 18
_WIDEST_DIAGONAL = 1 << 13
_MOST = 1e9


@dataclass(frozen=True, slots=True)
class Profile:
    """How the error is spread.

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
        weights[weights > _MOST] = _MOST  # where nothing is allowed they are infinite
        return weights
