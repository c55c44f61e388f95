"""A mask of true and false that hides other places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.fit import Fit
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific

_LEAST = 4


class MaskPlaces(Hypothesis):
    """A mask of true and false differs: it is turned round, moved, or true in other places.

    Some functions take a mask of what to see, others of what to hide; a causal mask may or may not hide the present;
    padding may be on the other side.

    Tested by turning all of it round, and by moving its diagonal. Make the mask as the reference does.
    """

    code = "attention.mask"

    def applies(self, case: Case) -> bool:
        sides = case.reference_as_recorded, case.candidate_as_recorded
        are_masks = all(side is not None and dtypes.kind_of(side.dtype) == "bool" for side in sides)
        return case.comparable and are_masks and case.candidate.size >= _LEAST

    def test(self, case: Case) -> Iterator[Explanation]:
        ours, theirs = case.expected > 0.5, case.candidate > 0.5
        if np.array_equal(ours, ~theirs):
            evidence, specific = "the mask is turned round: true where it should be false", Specific.MISTAKE
        else:
            moved = _moved_diagonal(ours, theirs)
            more, less = int((theirs & ~ours).sum()), int((ours & ~theirs).sum())
            evidence = f"{more:,} places are true that should be false, {less:,} the other way round{moved}"
            specific = Specific.MISTAKE if moved else Specific.FORM
        yield Explanation(
            cause=self.code,
            fit=Fit(0.0, 0.0, 1.0),
            evidence=evidence,
            fix="make the mask as the reference does",
            specific=specific,
            implies=("values.constant", "offset.constant", "scale.constant", "normalise.mean_std", "shift.sequence"),
        )


def _moved_diagonal(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Whether both are triangles, one a place further than the other."""
    if ours.ndim < 2 or ours.shape[-1] < 3:
        return ""
    for lag in (1, -1):
        moved = np.roll(ours, lag, axis=-1)
        inner = np.s_[..., 1:] if lag > 0 else np.s_[..., :-1]
        if np.array_equal(moved[inner], theirs[inner]):
            return f"; along the last axis it is one place {'late' if lag > 0 else 'early'}"
    return ""


HYPOTHESIS: Final = MaskPlaces()
