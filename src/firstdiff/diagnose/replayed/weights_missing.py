"""Weights that were never loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.diagnose.hypothesis import Specific
from firstdiff.dtypes import doubles

# what frameworks fill a weight with before it is loaded
_INITIAL_STD = 0.02


class WeightsMissing(Counterfactual):
    """Weights were not loaded.

    The layer computes with what it was made with: zeros, ones, or small random numbers. Names that do not match
    between checkpoint and model are the usual reason, and a loader that says nothing.

    Tested with zeros in place of the weight; and, where the candidate's weights are recorded, by whether they have
    nothing in common with the reference's. Check the names that were loaded against those the model has.
    """

    code = "weights.missing"

    def variants(self, trial: Trial) -> Iterator[Variant]:
        fix = f"load the weights of {trial.key}"
        told = any(both.candidate is not None for both in trial.case.params.values())
        for name, weight in () if told else trial.plan.arrays.items():
            if weight is not None and name.endswith("weight") and np.ndim(weight) > 0:
                yield Variant(
                    plan=trial.plan.on(**{name: np.zeros(np.shape(weight))}),
                    what=f"with a {name.replace('_', ' ')} of zeros",
                    fix=fix,
                    specific=Specific.SYMPTOM,
                    doubt=0.5,
                )
        unrelated = {
            name: both.candidate
            for name, both in trial.case.params.items()
            if both.differs and name in trial.plan.arrays and _looks_initial(both.reference, both.candidate)
        }
        if unrelated:
            yield Variant(
                plan=trial.plan.on(
                    **{name: both.candidate for name, both in trial.case.params.items() if both.differs}
                ),
                what=f"with the candidate's own {' and '.join(unrelated)}, which has nothing of the reference's,",
                fix=fix,
                doubt=0.3,
                implies=("values.uncorrelated",),
            )


def _looks_initial(reference: np.ndarray | None, candidate: np.ndarray | None) -> bool:
    """Whether a weight is constant, or what a fresh layer has."""
    if reference is None or candidate is None or candidate.size < 16:
        return False
    ours, theirs = doubles(reference).ravel(), doubles(candidate).ravel()
    spread = float(theirs.std())
    if spread == 0:
        return float(ours.std()) > 0
    related = ours.size == theirs.size and abs(float(np.corrcoef(ours, theirs)[0, 1])) > 0.1
    return not related and abs(spread / _INITIAL_STD - 1.0) < 0.1 and abs(float(ours.std()) / _INITIAL_STD - 1.0) > 0.2


HYPOTHESIS: Final = WeightsMissing()
