"""Hypotheses: a mask that hides other places, or another fill value in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Fit, Hypothesis, Specific
from firstdiff.diagnose.values.sides import Sides

_FEWEST_PLACES = 4
_HIDDEN_BELOW = -9e3


class MaskPlaces(Hypothesis):
    """A mask differs: it is turned round, moved, or hides other places.

    Some functions take a mask of what to see, others of what to hide; a causal mask may or may not hide the present;
    padding may be on the other side, or not hidden at all.

    Tested on masks of true and false and on those that are added to scores, 0 or far below it: by turning them round,
    and by moving their diagonal. Make the mask as the reference does.
    """

    code = "attention.mask"

    def applies(self, case: Case) -> bool:
        return case.comparable and case.candidate.size >= _FEWEST_PLACES

    def test(self, case: Case) -> Iterator[Explanation]:
        reference, candidate = (_visible(values, case.candidate_dtype) for values in (case.expected, case.candidate))
        if reference is None or candidate is None or np.array_equal(reference, candidate) or reference.all():
            return
        if np.array_equal(reference, ~candidate):
            evidence, specific = "the mask is turned round", Specific.MISTAKE
        else:
            moved = _describe_shifted_mask(reference, candidate)
            more, less = int((candidate & ~reference).sum()), int((reference & ~candidate).sum())
            evidence = f"{more:,} more places are true, or 0, than in the reference and {less:,} fewer{moved}"
            specific = Specific.MISTAKE if moved or candidate.all() else Specific.FORM
        yield Explanation(
            cause=self.code,
            fit=Fit(0.0, 0.0, 1.0),
            evidence=evidence,
            fix="make the mask as the reference does",
            specific=specific,
            implies=(
                *("values.zero", "values.constant", "offset.constant", "offset.channel", "scale.constant"),
                *("residual.missing", "normalise.mean_std", "shift.sequence", "values.nonfinite"),
            ),
        )


def _visible(values: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    """Return where a mask is True, or adds 0 to the scores; None if the values are no mask."""
    if dtypes.kind_of(dtype) == "bool":
        return np.asarray(values > 0.5)
    if values.dtype.kind != "f" or np.isnan(values).any():
        return None
    seen = np.asarray(values == 0)
    return seen if bool((seen | (values <= _HIDDEN_BELOW)).all()) else None


def _describe_shifted_mask(reference: np.ndarray, candidate: np.ndarray) -> str:
    """Describe a mask that is shifted by one along the last axis; empty if it is not."""
    if reference.ndim < 2 or reference.shape[-1] < 3:
        return ""
    for lag in (1, -1):
        moved = np.roll(reference, lag, axis=-1)
        inner = np.s_[..., 1:] if lag > 0 else np.s_[..., :-1]
        if np.array_equal(moved[inner], candidate[inner]):
            return f"; along the last axis it is one place {'late' if lag > 0 else 'early'}"
    return ""


_FAR_BEYOND = 100.0  # times the other values: a fill value rather than a score


class ValuesFiller(Hypothesis):
    """Masked places hold another number: -inf on one side, -1e9 or the lowest of a type on the other.

    After the softmax both are 0, unless a row is masked everywhere: then -inf makes NaN and a number makes an even
    row.

    Tested by the places that differ: each side has one number there, far below everything else. Fill with what the
    reference fills with, or compare behind the softmax.
    """

    code = "values.filler"

    def applies(self, case: Case) -> bool:
        return case.comparable and Sides.of(case).real

    @np.errstate(all="ignore")
    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        if not sides.reference.size or np.isnan(sides.reference).any() or np.isnan(sides.candidate).any():
            return
        reference, candidate = float(sides.reference.min()), float(sides.candidate.min())
        masked = sides.reference == reference
        if reference == candidate or masked.all() or not np.array_equal(masked, sides.candidate == candidate):
            return
        shown = sides.candidate[~masked]
        agrees = case.floor_of(shown).fit(sides.reference[~masked])
        if max(reference, candidate) > -_FAR_BEYOND * float(np.abs(shown).max()) or not agrees.reaches_floor:
            return
        predicted = np.where(masked, candidate, sides.reference)
        yield Explanation(
            cause=self.code,
            fit=agrees,
            evidence=f"{int(masked.sum()):,} masked places hold {candidate:.6g} in place of {reference:.6g}; "
            "everything else agrees",
            fix=f"fill masked places with {reference:.6g}, or compare what comes out of the softmax",
            assumed=1,
            implies=("values.nonfinite", "values.clipped", "offset.constant"),
            predicted=predicted,
        )


MASK_PLACES: Final = MaskPlaces()
VALUES_FILLER: Final = ValuesFiller()
