"""Hypothesis: weights that were never loaded."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Both, Case
from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.diagnose.hypothesis import Explanation, Fit, Specific
from firstdiff.diagnose.replayed.fresh import fresh_outputs, fresh_words
from firstdiff.dtypes import doubles
from firstdiff.ops import linear

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
        for name, weight in () if _weights_told(trial.case) else trial.plan.arrays.items():
            if weight is None or not name.endswith("weight") or np.ndim(weight) == 0:
                continue
            empty = trial.plan.on(**{name: np.zeros(np.shape(weight))})
            fit = trial.fit(empty)
            if fit is not None and fit.reaches_floor:  # whatever is small is near to nothing
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


def _weights_told(case: Case) -> bool:
    """True if the candidate recorded any weight of the operation."""
    return any(both.candidate is not None for both in case.params.values())


def _outputs_as_new(trial: Trial) -> str | None:
    case = trial.case
    if trial.function is not linear.linear or trial.key != case.key or _weights_told(case):
        return None
    given = doubles(trial.plan.arrays["input"])
    if given.ndim != case.candidate.ndim or given.ndim < 2:
        return None
    tokens = given[case.part[:-1]].reshape(-1, given.shape[-1])
    sides = (side.reshape(-1, side.shape[-1]) for side in (case.candidate, case.expected))
    return fresh_outputs(tokens, *sides) if len(tokens) <= _FEW_TOKENS else None


def _as_new(name: str, both: Both, trial: Trial) -> str | None:
    """Describe the candidate's weight if it looks freshly initialised and the reference's does not."""
    if not both.differs or name not in trial.plan.arrays or not name.endswith("weight"):
        return None
    return None if fresh_words(both.reference) else fresh_words(both.candidate)


HYPOTHESIS: Final = WeightsMissing()
