"""Weights whose columns are in another order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.align.walk import divisors
from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.dtypes import doubles
from firstdiff.ops import linear

_FEW_TOKENS = 4
_MOST_ORDERS = 64
_LEFT = 0.3


class WeightsOrder(Counterfactual):
    """The columns of a weight are in another order than what they are multiplied with.

    Behind a picture that was flattened with its channels last in place of first, behind heads or halves that lie
    otherwise, or where a file holds them backwards: every weight is there, and meets another number.

    Tested by putting what goes in into the orders that layouts give: backwards, and cut in two with the parts
    exchanged. Bring the columns into the reference's order when loading.
    """

    code = "weights.differ"
    functions = (linear.linear,)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        if trial.key != trial.case.key:
            return
        given = doubles(trial.plan.arrays["input"])
        for words, order in _orders(given.shape[-1] if given.ndim else 0):
            if self._may_fit(trial, given, order):
                yield Variant(
                    plan=trial.plan.on(input=given[..., order]),
                    what=f"with the columns of the weight {words}",
                    fix=f"bring the columns of the weight of {trial.key} into the reference's order when loading it",
                    implies=("values.uncorrelated",),
                )

    def _may_fit(self, trial: Trial, given: np.ndarray, order: np.ndarray) -> bool:
        """A quick look at a few tokens."""
        whole = trial.case.candidate_whole
        if whole is None or whole.shape[:-1] != given.shape[:-1]:
            return False
        few = given.reshape(-1, given.shape[-1])[:_FEW_TOKENS]
        wanted = doubles(whole.reshape(-1, whole.shape[-1])[:_FEW_TOKENS])
        made = trial.plan.on(input=few[:, order]).run()["0"]
        return bool(np.abs(made - wanted).max() <= _LEFT * np.abs(wanted).max())


def _orders(count: int) -> Iterator[tuple[str, np.ndarray]]:
    """Orders that layouts give, but for the one that there is."""
    if count < 2:
        return
    plain = np.arange(count)
    yield "backwards", plain[::-1]
    for parts in divisors(count)[1:-1][:_MOST_ORDERS]:
        yield f"cut into {parts} x {count // parts} with the two exchanged", plain.reshape(parts, -1).T.reshape(-1)
    if count % 2 == 0:
        yield "with its halves swapped", np.roll(plain, count // 2)


HYPOTHESIS: Final = WeightsOrder()
