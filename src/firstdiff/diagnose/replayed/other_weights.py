"""Find evidence of other weights in a linear layer from its inputs and outputs alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
_PARTLY_DOUBT = 0.6
_MOST_WRONG = 0.75
_IMPLIES = ("values.uncorrelated",)


def other_weights(trial: Trial, fix: str) -> Iterator[Variant]:
    """A weight and a bias with which every token comes out as it does, if the numbers say that there are any."""
    told = _told(trial)
    if told is None:
        return
    x, y, wrong = told.inputs, told.outputs, told.wrong
    what = "with another weight, the same for every token,"
    if x.shape[1] <= _MOST_COLUMNS and len(x) > x.shape[1] + 1:
        matrix = np.concatenate([x, np.ones((len(x), 1))], axis=1)
        weights = np.linalg.lstsq(matrix, y, rcond=None)[0]
        found, assumed, doubt = matrix @ weights, matrix.shape[1], _CERTAIN_DOUBT
    elif len(x) <= _MOST_COLUMNS and evidence(x, y[:, wrong]) > _LEAST_EVIDENCE:
        found, assumed, doubt = y, len(x) // 2, _LIKELY_DOUBT
    elif wrong.mean() <= _MOST_WRONG:  # each output has its own weights
        found, assumed, doubt = np.where(wrong, y, told.expected), int(wrong.sum()) * len(y), _PARTLY_DOUBT
        what = f"with other weights for {int(wrong.sum())} of {wrong.size} outputs, and the right ones for the rest,"
    else:
        return
    plan = trial.plan.with_function(_given).on(result=_put_back(trial, found))
    fit = trial.fit(plan)
    if fit is None or not fit.reaches_floor:  # as many numbers as were fitted come near to anything
        return
    yield Variant(
        plan=plan,
        fit=fit,
        what=what,
        fix=fix,
        assumed=assumed,
        specific=Specific.FORM,
        doubt=doubt,
        implies=_IMPLIES,
    )


def evidence(x: np.ndarray, y: np.ndarray) -> float:
    """Return the log likelihood ratio of outputs being linear in the inputs against being unrelated to them.

    In directions in which the inputs vary little a linear output varies little, too; unrelated values do not.
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


@dataclass(frozen=True, slots=True, eq=False)
class _Told:
    """The part of a case that is looked at, token by token, and which outputs are wrong."""

    inputs: np.ndarray
    outputs: np.ndarray
    expected: np.ndarray
    wrong: np.ndarray


def _told(trial: Trial) -> _Told | None:
    """None where inputs and outputs do not tell anything."""
    arrays, case = trial.plan.arrays, trial.case
    given, whole = np.asarray(arrays["mat1"] if "mat1" in arrays else arrays["input"]), case.candidate_whole
    if whole is None or given.ndim < 1 or whole.shape[:-1] != given.shape[:-1]:
        return None
    x = doubles(given[case.part[:-1]]).reshape(-1, given.shape[-1])
    y = case.candidate.reshape(-1, case.candidate.shape[-1])
    expected = trial.run(trial.plan)
    if expected is None or expected.shape != case.candidate.shape or len(x) > _MOST_ROWS or not len(x):
        return None
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return None
    right = expected.reshape(y.shape)
    wrong = np.abs(right - y).max(axis=0) > 1e-3 * np.std(y)
    return _Told(x, y, right, wrong) if (np.ptp(y[:, wrong], axis=0) > 0).any() else None


def _put_back(trial: Trial, found: np.ndarray) -> np.ndarray:
    """The whole row with what was found in the part that is looked at."""
    whole = np.array(doubles(trial.case.candidate_whole))
    whole[trial.case.part] = found.reshape(trial.case.candidate.shape)
    return whole


def _given(result: np.ndarray) -> np.ndarray:
    return result
