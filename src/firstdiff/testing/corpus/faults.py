"""Faults planted in what an operation gives back, as a wrong kernel or a wrong port would leave them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Change = Callable[[np.ndarray, np.random.Generator, float], np.ndarray]


@dataclass(frozen=True, slots=True)
class OutputFault:
    """A change of a tensor with rows and channels.

    change: the values changed, given a generator and a strength, which is 1 for the size in the name
    scaled: it has a strength; what is lost is lost
    """

    name: str
    change: Change
    scaled: bool = True


def apply(fault: OutputFault, values: np.ndarray, seed: int, strength: float = 1.0) -> np.ndarray:
    """The fault in a matrix of rows and channels, in float64.

    strength: a thousandth for float32, whose noise is smaller by more than that
    """
    changed: np.ndarray = fault.change(np.asarray(values, dtype=np.float64), np.random.default_rng(seed), strength)
    return changed


def _times(factor: float) -> Change:
    def change(values: np.ndarray, _: np.random.Generator, strength: float) -> np.ndarray:
        return np.asarray(values * (1 + (factor - 1) * strength))

    return change


def _shifted(values: np.ndarray, _: np.random.Generator, strength: float) -> np.ndarray:
    return np.asarray(values + 0.02 * strength * values.std())


def _channel(values: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    changed = values.copy()
    changed[:, _ordinary(np.abs(values).max(axis=0), rng)] *= 1 + 0.15 * strength
    return changed


def _channel_zero(values: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    changed = values.copy()
    changed[:, _ordinary(np.abs(values).max(axis=0), rng)] *= 1 - strength
    return changed


def _token_zero(values: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    changed = values.copy()
    changed[_ordinary(np.abs(values).max(axis=1), rng)] *= 1 - strength
    return changed


def _others_zero(values: np.ndarray, _: np.random.Generator, strength: float) -> np.ndarray:
    """Everything but the row of the largest value."""
    changed = values * (1 - strength)
    kept = int(np.abs(values).max(axis=1).argmax())
    changed[kept] = values[kept]
    return changed


def _token_noise(values: np.ndarray, rng: np.random.Generator, strength: float) -> np.ndarray:
    """Noise of 0.3 deviations of the row itself."""
    changed = values.copy()
    row = _ordinary(np.abs(values).max(axis=1), rng)
    changed[row] += 0.3 * strength * values[row].std() * rng.standard_normal(values.shape[1])
    return changed


def _int5(values: np.ndarray, _: np.random.Generator, strength: float) -> np.ndarray:
    """Rounded to 31 steps between the largest and its negative, row by row."""
    step = np.abs(values).max(axis=1, keepdims=True) / 15 * strength
    step[step == 0] = 1
    return np.asarray(np.round(values / step) * step)


def _ordinary(sizes: np.ndarray, rng: np.random.Generator) -> int:
    """One of those that are neither nearly empty nor the largest."""
    order = np.argsort(sizes)
    lower, upper = len(order) // 4, max(len(order) // 4 + 1, (9 * len(order)) // 10)
    return int(order[rng.integers(lower, upper)])


FAULTS: dict[str, OutputFault] = {
    made.name: made
    for made in (
        OutputFault("x1.01", _times(1.01)),
        OutputFault("x1.02", _times(1.02)),
        OutputFault("x1.05", _times(1.05)),
        OutputFault("+0.02 std", _shifted),
        OutputFault("channel x1.15", _channel),
        OutputFault("token zero", _token_zero),
        OutputFault("channel zero", _channel_zero),
        OutputFault("other tokens zero", _others_zero),
        OutputFault("int5", _int5),
        OutputFault("token noise", _token_noise),
    )
}
