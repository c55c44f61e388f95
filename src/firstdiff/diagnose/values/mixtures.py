"""Solve for a row as a weighted sum of its inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from firstdiff.diagnose.case import Both, Case
from firstdiff.dtypes import doubles

_MOST_PARTS = 4
_NEAR = 1e-5
_LEAST = 16


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """The weighted sum that gives a row.

    keys: the parts
    weights: [part, sample]; one sample where all have the same
    made: the sum, in the layout of the row
    """

    keys: tuple[str, ...]
    weights: np.ndarray
    made: np.ndarray

    @property
    def words(self) -> str:
        sides = [f"{_numbers(weights)} times {key}" for key, weights in zip(self.keys, self.weights, strict=True)]
        return " plus ".join(sides)


def mixture_of(case: Case, side: Literal["reference", "candidate"]) -> Mixture | None:
    """One side of a case as a weighted sum of its inputs on that side; None where it is none."""
    row = case.reference if side == "reference" else case.candidate
    parts = {both.key: values for both in given(case) if (values := _cut(both, side, case)) is not None}
    if not 2 <= len(parts) <= _MOST_PARTS or row.ndim < 2 or not np.isfinite(row).all():
        return None
    for samples in (1, row.shape[0]):
        found = _solved(tuple(parts), np.stack(list(parts.values())), row, samples)
        if found is not None:
            return found
    return None


def given(case: Case) -> list[Both]:
    """Inputs, or what led here where one side did not record them, each once."""
    inputs = list(case.inputs.values())
    recorded = inputs and all(both.candidate is not None for both in inputs)
    return list({both.key: both for both in (inputs if recorded else case.sources)}.values())


def _cut(both: Both, side: Literal["reference", "candidate"], case: Case) -> np.ndarray | None:
    values = both.reference if side == "reference" else both.candidate
    if values is None or values.ndim != len(case.part) or values.dtype.kind not in "fV":
        return None
    cut = doubles(values[case.part])
    return cut if cut.shape == case.candidate.shape and np.isfinite(cut).all() else None


def _solved(keys: tuple[str, ...], parts: np.ndarray, row: np.ndarray, samples: int) -> Mixture | None:
    """Least squares for each sample; None where they leave anything over, or fit whatever they are given."""
    each = row.size // samples
    if each < _LEAST:
        return None
    wanted, given = row.reshape(samples, each), parts.reshape(len(parts), samples, each)
    weights = np.empty((len(parts), samples))
    for at in range(samples):
        weights[:, at] = np.linalg.lstsq(given[:, at].T, wanted[at], rcond=None)[0]
    made = np.einsum("ps,pse->se", weights, given)
    if float(np.abs(made - wanted).max()) > _NEAR * float(np.abs(wanted).max()):
        return None
    return Mixture(keys, weights, made.reshape(row.shape))


def _numbers(weights: np.ndarray) -> str:
    if weights.size == 1:
        return f"{weights[0]:.4g}"
    return f"{weights.min():.4g} to {weights.max():.4g}"
