"""Hypothesis: positions counted from another start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.diagnose.hypothesis import Explanation
from firstdiff.ops import embedding, rotary

_OFFSETS = (1, -1, 2, -2, 3, -3)


class PositionOffset(Counterfactual):
    """Positions are counted from another number.

    Positions begin at 0, at 1, or (RoBERTa, OPT) at 2; with a cache they go on from the number of tokens seen. Off by
    a constant, every token gets its neighbour's position.

    Tested on the positions themselves, and by moving what tables of positions and rotary embeddings are asked for.
    Count from where the reference does.
    """

    code = "position.offset"
    functions = (embedding.embedding, rotary.rotary_tables, rotary.rotary)

    def applies(self, case: Case) -> bool:
        return case.comparable

    def test(self, case: Case) -> Iterator[Explanation]:
        yield from super().test(case)
        expected, candidate = case.expected, case.candidate
        if not _may_be_positions(case) or not expected.size:
            return
        offset = float(candidate.flat[0] - expected.flat[0])
        predicted = expected + offset
        fit = case.fit(predicted)
        yield Explanation(
            cause=self.code,
            fit=fit,
            evidence=f"with positions moved by {offset:g} {case.falls_to(fit)}",
            fix=f"count positions from {expected.flat[0]:g} instead of {candidate.flat[0]:g}",
            doubt=0.0 if _counts(expected) else 0.2,
            implies=("offset.constant", "ids.mismatch", "shift.sequence", "values.zero"),
            predicted=predicted,
        )

    def variants(self, trial: Trial) -> Iterator[Variant]:
        if trial.function is embedding.embedding and not _counts(np.asarray(trial.plan.arrays["input"])):
            return
        right = trial.plan.settings["offset"]
        for offset in _OFFSETS:
            yield Variant(
                plan=trial.plan.changed(offset=right + offset),
                what=f"with positions moved by {offset}",
                fix=f"count positions in {trial.key} as the reference does",
                implies=("ids.mismatch", "shift.sequence", "weights.differ"),
            )


def _may_be_positions(case: Case) -> bool:
    """Whole numbers that count up, or that are used where nothing is looked up by them."""
    expected, candidate = case.expected, case.candidate
    if np.any(expected != np.round(expected)) or np.any(candidate != np.round(candidate)):
        return False
    if expected.size > 1 and _counts(expected) and _counts(candidate):
        return True
    words = f"{case.name}.{case.slot}".lower()
    of_tokens = case.op == "Embedding" or ("ids" in words and "position" not in words) or "token" in words
    return case.dtype.kind in "iu" and case.role == "input" and not of_tokens


def _counts(numbers: np.ndarray) -> bool:
    """True if values grow by 1 along the last axis."""
    return numbers.ndim > 0 and numbers.shape[-1] > 1 and bool(np.all(np.diff(numbers, axis=-1) == 1))


HYPOTHESIS: Final = PositionOffset()
