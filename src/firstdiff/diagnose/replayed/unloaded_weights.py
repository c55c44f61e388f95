"""Hypothesis: weights that were never loaded."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Both, Case
from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.diagnose.hypothesis import Explanation, Fit, Specific
from firstdiff.dtypes import doubles
from firstdiff.ops import linear
from firstdiff.ops.plan import is_weight_name

# what most transformers fill a weight with
_USUAL_STD = 0.02
_SIGMAS = 5.0
_FEWEST_VALUES, _SAMPLE = 256, 1 << 16
_EDGE = 0.05
_LEAST_OUTPUTS, _SIGMAS_OF_SPREAD = 96, 4.0


def fresh_words(weight: np.ndarray | None) -> str | None:
    """Describe the initialisation of a weight that looks freshly initialised; None if it does not."""
    if weight is None or weight.size < 2:
        return None
    values = doubles(weight.reshape(-1)[:: max(1, weight.size // _SAMPLE)])
    spread, top = float(values.std()), float(np.abs(values).max())
    if spread == 0:
        return f"nothing but {values[0]:g}"
    if (
        values.size < _FEWEST_VALUES
        or not np.isfinite(spread)
        or abs(float(values.mean())) > _SIGMAS * spread / values.size**0.5
    ):
        return None
    tails = float(np.mean((values / spread) ** 4))
    if _is_near(spread, _USUAL_STD, 0.5, values.size) and _is_near(tails, 3.0, 8.0 / 3.0, values.size):
        return f"normal, with a standard deviation of {_USUAL_STD:g}"
    bound = float(np.prod(weight.shape[1:])) ** -0.5
    if (1.0 - _EDGE) * bound <= top <= (1.0 + 1e-6) * bound and _is_near(tails, 1.8, 0.3, values.size):
        return f"uniform, up to 1 / sqrt(fan_in) = {bound:.3g}"
    return None


def fresh_outputs(inputs: np.ndarray, outputs: np.ndarray, right: np.ndarray) -> str | None:
    """Describe the random weights that would give outputs of this size; None if none would, or the outputs are too few.

    inputs, outputs, right: [tokens, numbers]; `right` are the outputs as they should be

    Outputs of a token have the standard deviation of the random weights times the norm of its input.
    """
    count = outputs.shape[1]
    lengths = np.linalg.norm(inputs, axis=1)
    if count < _LEAST_OUTPUTS or not len(inputs) or not lengths.all():
        return None
    slack = _SIGMAS_OF_SPREAD / (2.0 * count) ** 0.5
    for name, spread in ((f"{_USUAL_STD:g}", _USUAL_STD), ("1 / sqrt(3 fan_in)", (3.0 * inputs.shape[1]) ** -0.5)):
        found, wanted = (side.std(axis=1) / (spread * lengths) for side in (outputs, right))
        centred = np.abs(outputs.mean(axis=1)) <= _SIGMAS * outputs.std(axis=1) / count**0.5
        if centred.all() and (np.abs(found - 1.0) <= slack).all() and (np.abs(wanted - 1.0) > 2.0 * slack).any():
            return f"random weights with a standard deviation of {name}"
    return None


def _is_near(found: float, wanted: float, relative_variance: float, count: int) -> bool:
    """True if a statistic of `count` draws is the wanted one within sampling error."""
    return bool(abs(found / wanted - 1.0) <= _SIGMAS * (relative_variance / count) ** 0.5)


_AS_NEW, _LOOKS_NEW = 0.1, 0.4
_LEFT = 0.4
_FEW_TOKENS = 64


class WeightsMissing(Counterfactual):
    """Weights were not loaded.

    The layer computes with what it was made with: zeros, ones, or small random numbers. Names that do not match
    between checkpoint and model are the usual reason, and a loader that says nothing.

    Tested with zeros in place of the weight, and by whether outputs have the size that new weights give them; where the
    candidate's weights are recorded, by whether they are what frameworks fill new ones with, and the reference's are
    not. Check the names that were loaded against those the model has.
    """

    code = "weights.missing"

    def test(self, case: Case) -> Iterator[Explanation]:
        yield from super().test(case)
        for operation in case.operations:
            words = _outputs_as_new(Trial(case, operation))
            if words is not None:
                yield Explanation(
                    cause=self.code,
                    fit=Fit(inf, _LEFT * case.unexplained.rms, inf),
                    evidence=f"the outputs are as large as {words} make them, and the reference's are not",
                    fix=f"load the weights of {operation.key}",
                    specific=Specific.SYMPTOM,
                    implies=("values.uncorrelated",),
                    doubt=_LOOKS_NEW,
                )

    def variants(self, trial: Trial) -> Iterator[Variant]:
        fix = f"load the weights of {trial.key}"
        for name, weight in () if _candidate_has_weights(trial.case) else trial.plan.arrays.items():
            if weight is None or not is_weight_name(name) or np.ndim(weight) == 0:
                continue
            empty = trial.plan.on(**{name: np.zeros(np.shape(weight))})
            fit = trial.fit(empty)
            if fit is not None and fit.reaches_floor:  # zeros come near to any small output
                yield Variant(
                    plan=empty,
                    fit=fit,
                    what=f"with a {name.replace('_', ' ')} of zeros",
                    fix=fix,
                    specific=Specific.SYMPTOM,
                    doubt=0.5,
                )
        fresh = {name: words for name, both in trial.case.params.items() if (words := _as_new(name, both, trial))}
        if fresh:
            held = {name: both.candidate for name, both in trial.case.params.items() if both.differs}
            weights = " and ".join(f"{name} ({words})" for name, words in fresh.items())
            yield Variant(
                plan=trial.plan.on(**held),
                what=f"with the candidate's own {weights}, as new,",
                fix=fix,
                doubt=_AS_NEW,
                implies=("weights.differ", "bias.missing", "values.uncorrelated"),
            )


def _candidate_has_weights(case: Case) -> bool:
    """True if the candidate recorded any weight of the operation."""
    return any(both.candidate is not None for both in case.params.values())


def _outputs_as_new(trial: Trial) -> str | None:
    case = trial.case
    if trial.function is not linear.linear or trial.key != case.key or _candidate_has_weights(case):
        return None
    given = doubles(trial.plan.arrays["input"])
    if given.ndim != case.candidate.ndim or given.ndim < 2:
        return None
    tokens = given[case.part[:-1]].reshape(-1, given.shape[-1])
    sides = (side.reshape(-1, side.shape[-1]) for side in (case.candidate, case.expected))
    return fresh_outputs(tokens, *sides) if len(tokens) <= _FEW_TOKENS else None


def _as_new(name: str, both: Both, trial: Trial) -> str | None:
    """Describe the candidate's weight if it looks freshly initialised and the reference's does not."""
    if not both.differs or name not in trial.plan.arrays or not is_weight_name(name):
        return None
    return None if fresh_words(both.reference) else fresh_words(both.candidate)


WEIGHTS_MISSING: Final = WeightsMissing()
