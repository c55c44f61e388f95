"""The fraction of a difference that a prediction leaves, and the evidence against chance."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

_TRIMMED = 0.01
_LEAST = 1e-9
_PRICE = log(10.0)


@dataclass(frozen=True, slots=True)
class Share:
    """A prediction held against the candidate.

    left: share of the difference that it leaves, over the elements that differ, paid for what was fitted
    count: how many elements tell something
    fitted: how many numbers were chosen to make it fit
    """

    left: float
    count: int
    fitted: int

    @property
    def evidence(self) -> float:
        """The log likelihood ratio against chance; low for few elements, which fit anything."""
        free = self.count - self.fitted
        if free <= 0 or self.left >= 1.0:
            return 0.0
        return max(free * log(1.0 / max(self.left, _LEAST)) - self.fitted * _PRICE, 0.0)


NOTHING = Share(1.0, 0, 0)


@np.errstate(all="ignore")
def share_left(
    reference: np.ndarray, candidate: np.ndarray, predicted: np.ndarray, wrong: np.ndarray, fitted: int = 0
) -> Share:
    """Hold a prediction of the candidate against it, where the two sides differ.

    fitted: how many numbers of it were taken from the candidate itself

    A candidate near 0 is not explained by whatever predicts 0: what is left is also held against its own spread.
    """
    told = wrong & np.isfinite(predicted) & np.isfinite(reference) & np.isfinite(candidate)
    count = int(np.count_nonzero(told))
    if not count or 2 * count < np.count_nonzero(wrong):
        return NOTHING
    ref, cand, made = reference[told], candidate[told], predicted[told]
    before = typical(cand - ref)
    every = candidate[np.isfinite(candidate)]
    spread = typical(every - every.mean())
    before = min(before, spread) if spread > 0 else before
    after = typical(cand - made) * (count / max(count - fitted, 1)) ** 0.5
    return Share(after / before if before > 0 else 1.0, count, fitted)


def typical(values: np.ndarray) -> float:
    """Root mean square without the largest hundredth, which outliers would rule."""
    sizes = np.abs(values).reshape(-1)
    kept = sizes.size - int(sizes.size * _TRIMMED)
    if kept < sizes.size:
        sizes = np.partition(sizes, kept - 1)[:kept]
    top = float(sizes.max(initial=0.0))
    return top * float(np.sqrt(np.mean((sizes / top) ** 2))) if 0 < top < np.inf else top
