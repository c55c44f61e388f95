"""Hypothesis: another vocabulary."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Fit, Hypothesis
from firstdiff.diagnose.values.axis_order import Lines, order_along
from firstdiff.diagnose.values.sides import Sides, axis_words
from firstdiff.diagnose.values.tokens import are_ids

_WORDS = re.compile(r"logit|lm_head|vocab|wte|embed|token|score|output_projection", re.IGNORECASE)
_LEAST = 16
_AGAIN = 4
_FIX = "use the reference's vocabulary: its file, its order and its added tokens"


class VocabMismatch(Hypothesis):
    """The vocabulary is another one: its entries in another order, or more or fewer of them.

    Logits whose columns are permuted, an embedding with rows added or left out, ids that stand for other words.

    Tested by looking for every row or column of the reference in the candidate, by the lengths, and by ids that are
    always replaced by the same other id. Use the reference's vocabulary.
    """

    code = "vocab.mismatch"

    def applies(self, case: Case) -> bool:
        return _ids(case) or bool(_WORDS.search(f"{case.name} {case.op or ''}"))

    def test(self, case: Case) -> Iterator[Explanation]:
        if _ids(case):
            yield from self._renamed(case)
        elif case.comparable:
            yield from self._reordered(Sides.of(case))
        else:
            yield from self._resized(case)

    def _renamed(self, case: Case) -> Iterator[Explanation]:
        """Explain ids of which each is always replaced by the same other id."""
        reference, candidate = (
            np.asarray(side).reshape(-1) for side in (case.reference_as_recorded, case.candidate_as_recorded)
        )
        if reference.size != candidate.size or np.unique(candidate - reference).size == 1:
            return
        pairs = np.unique(np.stack([reference, candidate]), axis=1)
        one, other = np.unique(pairs[0]).size, np.unique(pairs[1]).size
        renamed = pairs[0] != pairs[1]
        again = int((reference != candidate).sum()) - int(renamed.sum())
        if not one == other == pairs.shape[1] or again < _AGAIN:
            return
        yield Explanation(
            cause=self.code,
            fit=Fit(0.0, 0.0, float("inf")),
            evidence=f"{int(renamed.sum())} ids of the reference are always the same other id in the candidate: "
            "other names for them",
            fix=_FIX,
            assumed=one,
            implies=("ids.mismatch",),
            doubt=2.0 ** -float(min(again, 30)),
        )

    def _reordered(self, sides: Sides) -> Iterator[Explanation]:
        for axis in {sides.ndim - 1, 0} if sides.ndim > 1 else set():
            if sides.shape[axis] < _LEAST:
                continue
            order = order_along(Lines.along(sides, axis), any_order=True)
            if order is None or order.cause != "layout.permuted":
                continue
            yield from sides.told(
                self.code,
                sides.reference.take(order.taken, axis=axis),
                f"the {sides.shape[axis]} entries of {axis_words(axis, sides.ndim)} are in another order",
                _FIX,
                chosen=int((order.taken != np.arange(order.taken.size)).sum()),
                implies=("layout.permuted", "layout.head_order"),
            )

    def _resized(self, case: Case) -> Iterator[Explanation]:
        """Explain an axis that is longer on one side where the common part agrees."""
        reference, candidate = case.reference_as_recorded, case.candidate_as_recorded
        if reference is None or candidate is None or reference.ndim != candidate.ndim:
            return
        longer = [axis for axis in range(reference.ndim) if reference.shape[axis] != candidate.shape[axis]]
        if len(longer) != 1 or longer[0] not in (0, reference.ndim - 1) or min(reference.size, candidate.size) < _LEAST:
            return
        axis = longer[0]
        count = min(reference.shape[axis], candidate.shape[axis])
        common = [dtypes.doubles(side.take(range(count), axis=axis)) for side in (reference, candidate)]
        spread = float(common[0].std())
        same = float(np.mean(np.abs(common[0] - common[1]) <= 1e-3 * (spread + np.abs(common[0]))))
        agrees = f"; {same:.0%} of the first {count} agree"
        yield Explanation(
            cause=self.code,
            fit=Fit(1.0, 1.0, float("inf")),
            evidence=f"{candidate.shape[axis]} entries in place of {reference.shape[axis]}{agrees}",
            fix=_FIX,
            doubt=0.1 if same > 0.9 else 0.4,
        )


def _ids(case: Case) -> bool:
    sides = case.reference_as_recorded, case.candidate_as_recorded
    return all(are_ids(side) and side is not None and side.size > 0 for side in sides)


HYPOTHESIS: Final = VocabMismatch()
