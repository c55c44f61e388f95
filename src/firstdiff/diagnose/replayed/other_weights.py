"""Hypothesis: other weights, as recorded or as inputs and outputs tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Any, Final

import numpy as np

from firstdiff.diagnose.case import Both, Case
from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.diagnose.hypothesis import Explanation, Fit, Specific
from firstdiff.dtypes import doubles
from firstdiff.ops import linear

_SLIGHT = 1e-2
_IMPLIED = ("scale.channel", "offset.channel", "scale.row", "values.uncorrelated")


class WeightsDiffer(Counterfactual):
    """The candidate has other weights.

    The operation is right and its weights are not: another checkpoint, another layer's, only a part loaded, or
    changed on the way.

    Tested, where the candidate recorded its weights, by computing the operation with them: what differs in the
    weights must explain what differs in the output. Where it did not, weights are looked for that give its output
    from its inputs for every token alike; if there are any, the operation is of the right kind. A layer that is
    nothing but its weights, and whose inputs match, can hardly be wrong in another way. Compare how both sides load
    the weights.
    """

    code = "weights.differ"

    def applies(self, case: Case) -> bool:
        return super().applies(case) or _is_only_its_weights(case)

    def test(self, case: Case) -> Iterator[Explanation]:
        yield from super().test(case)
        if _is_only_its_weights(case):
            yield from _of_unrecorded_weights(case)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        recorded = _recorded(trial)
        differ = {name: both for name, both in recorded.items() if both.differs or _lies_otherwise(both)}
        fix = f"load the reference's weights into {trial.key}"
        if differ:
            arrays = {name: _in_shape(both.candidate, trial.plan.arrays[name]) for name, both in differ.items()}
            names = ", ".join(both.key.removesuffix(":param") for both in differ.values())
            order = ", the reference's in another order," if not any(both.differs for both in differ.values()) else ""
            what = f"with the candidate's own {names}{order}"
            yield Variant(plan=trial.plan.on(**arrays), what=what, fix=fix, implies=_IMPLIED)
        elif not recorded and trial.function in _SOLVABLE:
            yield from other_weights(trial, fix)


_LAYERS = ("Linear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
_LARGE = 0.05  # relative difference that no type and no bias leaves
_NOT_SEEN = 0.4  # doubt about weights that nobody recorded


def _is_only_its_weights(case: Case) -> bool:
    """True for a layer of torch whose inputs match and whose weights neither side recorded."""
    record = case.row.candidate.record if case.row.candidate is not None else None
    same = record is not None and record.op == case.op
    recorded = any(both.reference is not None and both.candidate is not None for both in case.params.values())
    return same and case.op in _LAYERS and case.comparable and not recorded and case.inputs_match


def _of_unrecorded_weights(case: Case) -> Iterator[Explanation]:
    """Explain single channels that are off, or a large difference, by weights that are not there to look at."""
    axis = -1 if case.op == "Linear" else 1
    apart = np.abs(case.candidate - case.expected) > case.floor.allowed
    wrong = np.flatnonzero(np.moveaxis(apart, axis, 0).reshape(apart.shape[axis], -1).any(axis=1))
    share = np.linalg.norm(case.candidate - case.expected) / max(np.linalg.norm(case.expected), np.finfo(float).tiny)
    few = 0 < 2 * len(wrong) <= apart.shape[axis]
    if not few and not share > _LARGE:
        return
    where = f"channel {wrong[0]} alone is off" if len(wrong) == 1 else f"{len(wrong):,} channels are off"
    yield Explanation(
        cause="weights.differ",
        fit=Fit(0.0, 0.0, inf),
        evidence=f"{where}; what goes into it matches, and nothing but its weights, which were not recorded, is left",
        fix=f"compare the weights of {case.name}; capture with params='all' records them",
        implies=(*_IMPLIED, "scale.constant", "offset.constant", "values.stale"),
        doubt=_NOT_SEEN,
    )


_SOLVABLE = (linear.linear, linear.addmm)


def _recorded(trial: Trial) -> dict[str, Both]:
    """Return the weights of an operation that both sides recorded, by the operator's name for each."""
    found: dict[str, Both] = {}
    for name, array in trial.plan.arrays.items():
        both = trial.case.params.get(name) or _holding(trial.case.params.values(), array)
        if both is not None and array is not None and both.reference is not None and both.candidate is not None:
            found[name] = both
    return found


def _holding(params: Iterable[Both], array: Any) -> Both | None:
    """Find the weight with an array's values: arguments of functions and nodes have no parameter names."""
    if not isinstance(array, np.ndarray):
        return None
    return next((both for both in params if both.reference is not None and np.array_equal(both.reference, array)), None)


def _lies_otherwise(both: Both) -> bool:
    """True if two weights of one shape differ by more than a little."""
    reference, candidate = both.reference, both.candidate
    if reference is None or candidate is None or reference.shape != candidate.shape:
        return False
    one, other = doubles(reference), doubles(candidate)
    return bool(np.abs(one - other).max(initial=0.0) > _SLIGHT * np.abs(one).max(initial=0.0))


def _in_shape(values: np.ndarray | None, like: Any) -> np.ndarray | None:
    return values.reshape(np.shape(like)) if values is not None and values.size == np.size(like) else values


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
    """Yield a weight and bias that give every token of the candidate, if its values are evidence for any."""
    told = _wrong_outputs(trial)
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
    plan = trial.plan.with_function(_return_result).on(result=_put_back(trial, found))
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
class _WrongOutputs:
    """Inputs and outputs of a part of the case, by token, and the outputs that are wrong."""

    inputs: np.ndarray
    outputs: np.ndarray
    expected: np.ndarray
    wrong: np.ndarray


def _wrong_outputs(trial: Trial) -> _WrongOutputs | None:
    """Return the sample of a trial; None where it holds no evidence."""
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
    return _WrongOutputs(x, y, right, wrong) if (np.ptp(y[:, wrong], axis=0) > 0).any() else None


def _put_back(trial: Trial, found: np.ndarray) -> np.ndarray:
    """Return the whole candidate with other values in the compared part."""
    whole = np.array(doubles(trial.case.candidate_whole))
    whole[trial.case.part] = found.reshape(trial.case.candidate.shape)
    return whole


def _return_result(result: np.ndarray) -> np.ndarray:
    return result


WEIGHTS_DIFFER: Final = WeightsDiffer()
