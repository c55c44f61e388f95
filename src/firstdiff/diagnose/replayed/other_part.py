"""Hypothesis: another part of a tensor is used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant

_ATTENTION = ("query", "key", "value")


class OtherPart(Counterfactual):
    """An operation is given another part of a tensor that was taken apart.

    Shift, scale and gate of adaLN, gate and up, query, key and value come out of one layer and are told apart by
    their place. Taken in another order, each does the work of another.

    Tested by computing the operation with each of the other parts. Take the tensor apart in the reference's order.
    """

    code = "layout.chunk_swap"
    also = ("layout.qkv_order",)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        if trial.key != trial.case.key:
            return
        for part in trial.case.nearby.instead():
            for name, array in trial.plan.arrays.items():
                if isinstance(array, np.ndarray) and array.shape == part.own.shape and np.array_equal(array, part.own):
                    yield Variant(
                        plan=trial.plan.on(**{name: part.other}),
                        what=f"with {part.other_key} in place of {part.key}",
                        fix=f"give {trial.key} {part.key}: the parts are in another order",
                        cause="layout.qkv_order" if name in _ATTENTION else None,
                        implies=("values.stale", "values.uncorrelated"),
                    )


HYPOTHESIS: Final = OtherPart()
