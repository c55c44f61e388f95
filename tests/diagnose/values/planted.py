"""Values with healthy noise, and the diagnosis of two tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

import firstdiff as fd
from firstdiff.schema import Diagnosis

Tensors = np.ndarray | Mapping[str, Any]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def uniform(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).random(shape).astype(np.float32)


def noisy(values: np.ndarray, level: float = 3e-7, seed: int = 1) -> np.ndarray:
    """As another order of sums would leave them; zeros stay, as they do after a mask or a cut."""
    draws = np.random.default_rng(seed).standard_normal(values.shape)
    size = np.minimum(np.std(values), np.abs(values)) if values.min() >= 0 else np.std(values)
    return np.where(values == 0, values, values + level * size * draws).astype(np.float32)


def bf16(values: np.ndarray) -> np.ndarray:
    return values.astype(ml_dtypes.bfloat16).astype(np.float32)


def softmax(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    made = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return np.asarray(made / made.sum(axis=axis, keepdims=True), np.float32)


def diagnosed(reference: Tensors, candidate: Tensors, name: str = "x") -> tuple[Diagnosis, ...]:
    """Return the diagnosis of two tensors, or of two runs of several."""
    sides = [side if isinstance(side, Mapping) else {name: side} for side in (reference, candidate)]
    found = fd.compare(*sides)
    failed = [note.text for note in found.notes if "failed" in note.text or "could not be tested" in note.text]
    assert not failed, failed
    return found.diagnosis


def first_cause(reference: Tensors, candidate: Tensors, name: str = "x") -> str | None:
    found = diagnosed(reference, candidate, name)
    return found[0].cause if found else None


def confidence_in(cause: str, found: tuple[Diagnosis, ...]) -> float:
    return max((one.confidence for one in found if one.cause == cause), default=0.0)
