"""Weights that nobody recorded, told from what goes into a layer and what comes out of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from firstdiff.diagnose.counterfactual import Trial, Variant
from firstdiff.diagnose.hypothesis import Specific
from firstdiff.dtypes import doubles

# least squares over more numbers than this takes long
_MOST_COLUMNS = 1024
_MOST_ROWS = 4096
# how much likelier other weights must make the output than numbers without any relation to the input
_LEAST_EVIDENCE = 10.0
_CERTAIN_DOUBT = 0.1
_LIKELY_DOUBT = 0.35
_IMPLIES = ("values.uncorrelated",)


def other_weights(trial: Trial, fix: str) -> Iterator[Variant]:
    """A weight and a bias with which every token comes out as it does, if the numbers say that there are any."""
    sides = _sides(trial)
    if sides is None:
        return
    x, y, wrong = sides
    if len(x) > x.shape[1] + 1:
        matrix = np.concatenate([x, np.ones((len(x), 1))], axis=1)
        weights = np.linalg.lstsq(matrix, y, rcond=None)[0]
        found, assumed, doubt = matrix @ weights, matrix.shape[1], _CERTAIN_DOUBT
    elif evidence(x, y[:, wrong]) > _LEAST_EVIDENCE:
        found, assumed, doubt = y, len(x) // 2, _LIKELY_DOUBT
    else:
        return
    whole = trial.case.candidate_whole
    assert whole is not None, "what has sides has values"
    predicted = found.reshape(whole.shape)
    yield Variant(
        plan=trial.plan.with_function(_given).on(result=predicted),
        what="with another weight, the same for every token,",
        fix=fix,
        assumed=assumed,
        specific=Specific.FORM,
        doubt=doubt,
        implies=_IMPLIES,
    )


def evidence(x: np.ndarray, y: np.ndarray) -> float:
    """How much likelier (as a logarithm) outputs are products of the inputs than numbers of their own.

    In the directions in which inputs vary little a product varies little too; other numbers know nothing of that.
    """
    inputs, outputs = x - x.mean(axis=0), y - y.mean(axis=0)
    directions, sizes, _ = np.linalg.svd(inputs, full_matrices=False)
    there = sizes > 1e-6 * sizes[0] if sizes.size else sizes > 0
    if there.sum() < 2:
        return 0.0
    parts, sizes = directions.T[there] @ outputs, sizes[there]
    as_product = np.mean((parts / sizes[:, None]) ** 2)
    as_noise = np.mean(parts**2)
    if as_noise == 0 or as_product == 0:
        return 0.0
    spread = np.log(as_product * sizes**2).sum() - len(sizes) * np.log(as_noise)
    return float(-0.5 * parts.shape[1] * spread)


def _sides(trial: Trial) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Inputs and outputs token by token, and which outputs are wrong; None where they do not tell."""
    arrays, whole = trial.plan.arrays, trial.case.candidate_whole
    x = doubles(arrays["mat1"] if "mat1" in arrays else arrays["input"])
    if whole is None or x.ndim < 1 or x.shape[-1] > _MOST_COLUMNS or whole.shape[:-1] != x.shape[:-1]:
        return None
    rows, y = x.reshape(-1, x.shape[-1])[:_MOST_ROWS], doubles(whole).reshape(-1, whole.shape[-1])
    if y.shape[0] > _MOST_ROWS or not (np.isfinite(rows).all() and np.isfinite(y).all()):
        return None
    expected = trial.run(trial.plan)
    if expected is None or expected.shape != whole.shape:
        return None
    wrong = np.abs(expected.reshape(y.shape) - y).max(axis=0) > 1e-3 * np.std(y)
    varies = np.ptp(y[:, wrong], axis=0) > 0 if len(y) else np.zeros(0, dtype=bool)
    return (rows, y, wrong) if varies.any() else None


def _given(result: np.ndarray) -> np.ndarray:
    return result
