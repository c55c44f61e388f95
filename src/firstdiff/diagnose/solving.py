"""Solve for one numeric setting of an operation so that its result fits the candidate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, log

from firstdiff.diagnose.counterfactual import Trial
from firstdiff.diagnose.fit import Fit
from firstdiff.ops import Plan

_COARSE = 15
_FINE = 24
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """The value that fits best; `usual` if it is one of those models use, which need not be fitted."""

    value: float
    fit: Fit
    plan: Plan
    usual: bool


def solve_setting(trial: Trial, setting: str, *, usual: Iterable[float], low: float, high: float) -> Solved | None:
    """The value of a setting with which the candidate fits best: a usual one if one fits, else one searched for.

    low, high: the search is logarithmic between the two
    """
    best: Solved | None = None
    for value in usual:
        best = _better(best, _tried(trial, setting, value, usual=True))
    if best is not None and best.fit.reaches_floor:
        return best
    grid = [low * exp(log(high / low) * step / (_COARSE - 1)) for step in range(_COARSE)]
    tried = [_tried(trial, setting, value, usual=False) for value in grid]
    found = [(solved.fit.rms, step) for step, solved in enumerate(tried) if solved is not None]
    if not found:
        return best
    step = min(found)[1]
    return _better(best, _golden(trial, setting, grid[max(0, step - 1)], grid[min(_COARSE - 1, step + 1)]))


def _golden(trial: Trial, setting: str, low: float, high: float) -> Solved | None:
    """Golden-section search over the logarithm."""
    left, right = log(low), log(high)
    best: Solved | None = None
    inner = right - _GOLDEN * (right - left), left + _GOLDEN * (right - left)
    ends = [_tried(trial, setting, exp(value), usual=False) for value in inner]
    for _ in range(_FINE):
        if ends[0] is None or ends[1] is None:
            return best
        best = _better(_better(best, ends[0]), ends[1])
        if ends[0].fit.rms <= ends[1].fit.rms:
            right = inner[1]
            inner = right - _GOLDEN * (right - left), inner[0]
            ends = [_tried(trial, setting, exp(inner[0]), usual=False), ends[0]]
        else:
            left = inner[0]
            inner = inner[1], left + _GOLDEN * (right - left)
            ends = [ends[1], _tried(trial, setting, exp(inner[1]), usual=False)]
    return best


def _tried(trial: Trial, setting: str, value: float, *, usual: bool) -> Solved | None:
    plan = trial.plan.changed(**{setting: value})
    fit = trial.fit(plan)
    return None if fit is None else Solved(value, fit, plan, usual)


def _better(one: Solved | None, other: Solved | None) -> Solved | None:
    if one is None or other is None:
        return one or other
    return other if other.fit.rms < one.fit.rms else one
