"""Pairs of tensors that differ by random layout steps, and what a right answer about them is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import ml_dtypes
import numpy as np

from firstdiff.align.solution import Solution
from firstdiff.trace import ArraySource

Array = np.ndarray
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 64)
NOISES = ("exact", "fp32", "bf16")
KINDS = ("normal", "channels", "relu", "ids", "smooth")
_TOLERANCE = {"exact": 0.0, "fp32": 1e-5, "bf16": 0.02}


@dataclass(frozen=True)
class Case:
    """A pair, the moves that led from one to the other, and the noise that was added."""

    reference: Array
    candidate: Array
    moves: tuple[str, ...]
    noise: str

    def __str__(self) -> str:
        moves = ", ".join(self.moves) or "nothing"
        return f"{self.reference.shape} against {self.candidate.shape}: {moves} ({self.noise})"


def random_case(seed: int) -> Case:
    """Any number of plain moves, at most one of the others, on either side."""
    rng = np.random.default_rng(seed)
    noise = NOISES[seed % len(NOISES)]
    first = _values(rng, KINDS[seed // len(NOISES) % len(KINDS)])
    second, moves = first, []
    for _ in range(rng.integers(1, 5)):
        second, move = _plain_move(rng, second)
        moves.append(move)
    if rng.random() < 0.5:
        second, move = _other_move(rng, second)
        moves.append(move)
    reference, candidate = (first, second) if rng.random() < 0.5 else (second, first)
    return Case(reference, _with_noise(rng, candidate, noise), tuple(filter(None, moves)), noise)


def shuffled_case(seed: int) -> Case:
    """The same values and shapes, with those of the candidate shuffled: no layout relates them."""
    case = random_case(seed)
    values = np.random.default_rng(seed).permutation(case.candidate.ravel())
    return Case(case.reference, values.reshape(case.candidate.shape), ("shuffle",), case.noise)


def _values(rng: np.random.Generator, kind: str) -> Array:
    """Values as models have them: plain noise, channels far apart, many zeros, small whole numbers, a signal."""
    array = _tensor(rng)
    if kind == "channels":
        array = array + 10 * rng.standard_normal(array.shape[-1])
    elif kind == "relu":
        array = np.maximum(array, 0)
    elif kind == "ids":
        array = rng.integers(0, 100, array.shape)
    elif kind == "smooth":
        array = np.cumsum(array.ravel()).reshape(array.shape) / 10
    return array.astype(np.float32)


def _tensor(rng: np.random.Generator) -> Array:
    while True:
        shape = tuple(int(n) for n in rng.choice(SIZES, size=rng.integers(1, 6)))
        if 48 <= prod(shape) <= 40_000:
            return rng.standard_normal(shape).astype(np.float32)


def _with_noise(rng: np.random.Generator, array: Array, noise: str) -> Array:
    if noise == "exact":
        return np.ascontiguousarray(array)
    if noise == "fp32":
        return (array * (1 + 4e-7 * rng.standard_normal(array.shape))).astype(np.float32)
    return array.astype(ml_dtypes.bfloat16)


def _plain_move(rng: np.random.Generator, array: Array) -> tuple[Array, str]:
    move = rng.choice(["permute", "flatten", "unflatten", "squeeze", "unsqueeze"])
    if move == "permute" and array.ndim > 1:
        order = tuple(int(axis) for axis in rng.permutation(array.ndim))
        return np.ascontiguousarray(array.transpose(order)), f"permute {order}"
    if move == "flatten" and array.ndim > 1:
        at = int(rng.integers(array.ndim - 1))
        shape = (*array.shape[:at], array.shape[at] * array.shape[at + 1], *array.shape[at + 2 :])
        return array.reshape(shape), f"flatten {at}"
    if move == "unflatten" and array.ndim and array.ndim < 8:
        at = int(rng.integers(array.ndim))
        factors = [n for n in range(2, array.shape[at]) if array.shape[at] % n == 0]
        if factors:
            outer = int(rng.choice(factors))
            shape = (*array.shape[:at], outer, array.shape[at] // outer, *array.shape[at + 1 :])
            return array.reshape(shape), f"unflatten {at} by {outer}"
    if move == "squeeze" and 1 in array.shape:
        return array.squeeze(array.shape.index(1)), "squeeze"
    if move == "unsqueeze" and array.ndim < 8:
        at = int(rng.integers(array.ndim + 1))
        return np.expand_dims(array, at), f"unsqueeze {at}"
    return array, ""


def _other_move(rng: np.random.Generator, array: Array) -> tuple[Array, str]:
    move: Callable[[np.random.Generator, Array], tuple[Array, str] | None] = rng.choice(
        np.array([_shard, _truncate, _repeat, _rope, _swap_chunks], dtype=object)
    )
    return move(rng, array) or (array, "")


def _axis(rng: np.random.Generator, array: Array, wanted: Callable[[int], bool]) -> int | None:
    axes = [axis for axis, length in enumerate(array.shape) if wanted(length)]
    return int(rng.choice(axes)) if axes else None


def _shard(rng: np.random.Generator, array: Array) -> tuple[Array, str] | None:
    axis = _axis(rng, array, lambda n: n % 2 == 0 and array.size >= 96)
    if axis is None:
        return None
    part = int(rng.integers(2))
    return np.split(array, 2, axis)[part], f"shard {part} of 2 along {axis}"


def _truncate(rng: np.random.Generator, array: Array) -> tuple[Array, str] | None:
    axis = _axis(rng, array, lambda n: n > 4)
    if axis is None:
        return None
    kept = int(rng.integers(array.shape[axis] // 2 + 1, array.shape[axis]))
    return np.take(array, np.arange(kept), axis), f"truncate {axis} to {kept}"


def _repeat(rng: np.random.Generator, array: Array) -> tuple[Array, str] | None:
    axis = _axis(rng, array, lambda n: n > 1)
    if axis is None:
        return None
    return np.repeat(array, 3, axis), f"repeat {axis} by 3"


def _rope(rng: np.random.Generator, array: Array) -> tuple[Array, str] | None:
    axis = _axis(rng, array, lambda n: n % 4 == 0)
    if axis is None:
        return None
    moved = np.moveaxis(array, axis, -1)
    pairs = moved.reshape(*moved.shape[:-1], 2, moved.shape[-1] // 2).swapaxes(-1, -2).reshape(moved.shape)
    return np.ascontiguousarray(np.moveaxis(pairs, -1, axis)), f"rope {axis}"


def _swap_chunks(rng: np.random.Generator, array: Array) -> tuple[Array, str] | None:
    axis = _axis(rng, array, lambda n: n % 2 == 0)
    if axis is None:
        return None
    return np.concatenate(np.split(array, 2, axis)[::-1], axis), f"swap halves of {axis}"


def agreement(solution: Solution, case: Case) -> float:
    """The share of all elements that agree once the pair is aligned; 0 where it is not."""
    if solution.alignment is None:
        return 0.0
    aligned = solution.alignment.apply([ArraySource(case.reference)], [ArraySource(case.candidate)])
    reference, candidate = (side.window(0, side.size).astype(np.float64) for side in aligned)
    if not reference.size:
        return 1.0
    return float((np.abs(reference - candidate) <= _TOLERANCE[case.noise] * (1e-3 + np.abs(reference))).mean())


def is_right(solution: Solution, case: Case) -> bool:
    """Everything that both sides share is aligned and agrees."""
    shared = min(case.reference.size, case.candidate.size) / max(case.reference.size, case.candidate.size)
    return solution.fits and agreement(solution, case) == 1.0 and solution.coverage >= shared - 1e-9
