"""Discrete diffusion with uniform noise: recognise transition kernels, staggered scores and Gumbel draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_NEAR = 1e-6
_MOST_GUMBEL_TIES = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class UniformKernel:
    """Rows that hold one number, but for one place each.

    made: those two numbers put back in their places
    """

    redraw: float
    keep: float
    places: np.ndarray
    made: np.ndarray

    @property
    def total(self) -> float:
        """Sum of one row."""
        return float(self.keep + (self.made.shape[-1] - 1) * self.redraw)

    @property
    def words(self) -> str:
        return f"{self.redraw:.4g} for every other class and {self.keep:.4g} for the same one"


def uniform_kernel(values: np.ndarray) -> UniformKernel | None:
    """Return the kernel that rows of the last axis hold; None where they hold none."""
    if values.ndim < 2 or values.shape[-1] < 3 or not values.size or not np.isfinite(values).all():
        return None
    redraw = float(np.median(values))
    scale = float(np.abs(values).max())
    places = np.abs(values - redraw).argmax(axis=-1)[..., None]
    kept = np.take_along_axis(values, places, axis=-1)
    keep = float(np.median(kept))
    made = np.full(values.shape, redraw)
    np.put_along_axis(made, places, keep, axis=-1)
    if abs(keep - redraw) <= _NEAR * scale or float(np.abs(made - values).max()) > _NEAR * scale:
        return None
    return UniformKernel(redraw, keep, places, made)


@dataclass(frozen=True, slots=True, eq=False)
class Staggered:
    """Scores as `factor` times those before, plus `share` times the sum of the row."""

    factor: float
    share: float
    made: np.ndarray

    @property
    def words(self) -> str:
        return f"{self.factor:.4g} times the score plus {self.share:.4g} times its sum"


def staggered(values: np.ndarray, score: np.ndarray) -> Staggered | None:
    """Return how scores of the less noisy level were made; None where they were made otherwise."""
    if values.ndim < 2 or values.shape != score.shape or values.size < 8:
        return None
    if not (np.isfinite(values).all() and np.isfinite(score).all()):
        return None
    sums = np.broadcast_to(score.sum(axis=-1, keepdims=True), score.shape)
    parts = np.stack([score.ravel(), sums.ravel()], axis=1)
    (factor, share), _, rank, _ = np.linalg.lstsq(parts, values.ravel(), rcond=None)
    made = factor * score + share * sums
    if rank < 2 or float(np.abs(made - values).max()) > _NEAR * float(np.abs(values).max()):
        return None
    return Staggered(float(factor), float(share), made)


def gumbel_draw(probs: np.ndarray, gumbel: np.ndarray) -> np.ndarray:
    """Return the class of the largest log-probability plus Gumbel noise."""
    with np.errstate(all="ignore"):
        return np.asarray(np.argmax(np.log(probs) + gumbel, axis=-1))


def is_gumbel_draw(ids: np.ndarray, probs: np.ndarray, gumbel: np.ndarray) -> bool:
    """True if ids are drawn that way, but for ties."""
    if probs.shape != gumbel.shape or probs.shape[:-1] != ids.shape or not ids.size:
        return False
    if not (probs >= 0).all() or not (gumbel < 0).any():
        return False
    return bool(np.mean(gumbel_draw(probs, gumbel) != ids) <= _MOST_GUMBEL_TIES)
