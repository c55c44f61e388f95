"""Hypothesis: weights whose columns are in another order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from firstdiff.align.stride_search import divisors
from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.dtypes import doubles
from firstdiff.ops import linear

_FEW_TOKENS, _FEW_OUTPUTS = 4, 64
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
        look = _Look.at(trial) if trial.key == trial.case.key else None
        if look is None:
            return
        given = doubles(trial.plan.arrays["input"])
        for words, order in _orders(given.shape[-1]):
            if look.may_fit(order):
                yield Variant(
                    plan=trial.plan.on(input=given[..., order]),
                    what=f"with the columns of the weight {words}",
                    fix=f"bring the columns of the weight of {trial.key} into the reference's order when loading it",
                    implies=("values.uncorrelated",),
                )


@dataclass(frozen=True, slots=True, eq=False)
class _Look:
    """A few tokens and a few of the outputs: an order is soon found not to fit."""

    tokens: np.ndarray
    weight: np.ndarray
    bias: np.ndarray
    wanted: np.ndarray

    @staticmethod
    def at(trial: Trial) -> _Look | None:
        arrays, whole = trial.plan.arrays, trial.case.candidate_whole
        given, weight, bias = np.asarray(arrays["input"]), np.asarray(arrays["weight"]), arrays.get("bias")
        if whole is None or given.ndim < 1 or weight.ndim != 2 or whole.shape[:-1] != given.shape[:-1]:
            return None
        rows = weight.T if trial.plan.settings["transposed"] else weight
        return _Look(
            doubles(given.reshape(-1, given.shape[-1])[:_FEW_TOKENS]),
            doubles(rows[:_FEW_OUTPUTS]),
            doubles(np.zeros(1) if bias is None else np.asarray(bias)[:_FEW_OUTPUTS]),
            doubles(whole.reshape(-1, whole.shape[-1])[:_FEW_TOKENS, :_FEW_OUTPUTS]),
        )

    def may_fit(self, order: np.ndarray) -> bool:
        made = self.tokens[:, order] @ self.weight.T + self.bias
        return bool(np.abs(made - self.wanted).max(initial=0.0) <= _LEFT * np.abs(self.wanted).max(initial=0.0))


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
