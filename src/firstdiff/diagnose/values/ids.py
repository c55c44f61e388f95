"""Hypotheses: token ids differ, or positions are offset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Fit, Hypothesis, Specific

_NAMED = 4
_MOST_EXTRA = 64
_FIX = "compare the tokenizers: special tokens, merges, normalisation of the text, padding and truncation"


class IdsMismatch(Hypothesis):
    """Whole numbers differ: token ids, positions or indices.

    Another tokenizer, a missing start token, padding on the other side, ids that count from 1. Whatever follows is
    about another text, so nothing after this row proves anything.

    Tested by an offset, by tokens too many or too few at either end, by padding on the other side, and by order. Make
    the ids equal first.
    """

    code = "ids.mismatch"

    def applies(self, case: Case) -> bool:
        return are_ids(case.reference_as_recorded) and are_ids(case.candidate_as_recorded)

    def test(self, case: Case) -> Iterator[Explanation]:
        reference, candidate = (
            np.asarray(side, np.int64) for side in (case.reference_as_recorded, case.candidate_as_recorded)
        )
        if reference.shape == candidate.shape:
            if reference.size and not np.array_equal(reference, candidate):
                yield self._same_shape(reference, candidate)
        elif reference.size and candidate.size and reference.ndim == candidate.ndim:
            yield self._told(_lengths(reference, candidate), Specific.FORM)

    def _same_shape(self, reference: np.ndarray, candidate: np.ndarray) -> Explanation:
        wrong = candidate != reference
        offset = np.unique((candidate - reference)[wrong])
        if wrong.all() and offset.size == 1 and reference.size > 1:
            return self._told(f"all are {int(offset[0]):+d} off", Specific.MISTAKE)
        moved = _moved(reference, candidate)
        if moved is not None:
            return self._told(moved, Specific.MISTAKE)
        at = tuple(int(index) for index in np.argwhere(wrong)[0])
        values = f"{candidate[at]} in place of {reference[at]}"
        few = f"{int(wrong.sum()):,} of {reference.size:,} differ, first at {list(at)}: {values}"
        if offset.size == 1:
            few += f"; all by {int(offset[0]):+d}"
        if np.array_equal(np.sort(reference, axis=None), np.sort(candidate, axis=None)):
            few += "; they are the same ids in another order"
        return self._told(few, Specific.FORM)

    def _told(self, evidence: str, specific: Specific) -> Explanation:
        return Explanation(
            cause=self.code,
            fit=Fit(0.0, 0.0, float("inf")),
            evidence=evidence,
            fix=_FIX,
            specific=specific,
            implies=("offset.constant", "shift.sequence", "values.uncorrelated", "values.zero"),
        )


def are_ids(values: np.ndarray | None) -> bool:
    """True if values may be ids: integers of more than 8 bits, with at most one negative value (such as -100)."""
    if values is None or dtypes.kind_of(values.dtype) != "int" or values.dtype.itemsize < 2:
        return False
    return values.dtype.kind == "u" or np.unique(values[values < 0]).size <= 1


def _moved(reference: np.ndarray, candidate: np.ndarray) -> str | None:
    """Describe a shift of the last axis, by extra tokens or by padding on the other side; None if there is none."""
    length = reference.shape[-1] if reference.ndim else 0
    if length < 4:
        return None
    for lag in range(1, min(length - 2, _MOST_EXTRA) + 1):
        if np.array_equal(np.roll(reference, lag, axis=-1), candidate):
            pad = np.unique(candidate[..., :lag])
            if pad.size == 1:
                return f"padding ({int(pad[0])}) is on the left in the candidate and on the right in the reference"
            return f"the last axis is rolled by {lag}"
        if np.array_equal(np.roll(reference, -lag, axis=-1), candidate):
            pad = np.unique(reference[..., :lag])
            if pad.size == 1 and lag > 1:
                return f"padding ({int(pad[0])}) is on the right in the candidate and on the left in the reference"
        if np.array_equal(candidate[..., lag:], reference[..., :-lag]):
            return f"the candidate has {_list(candidate[..., :lag])} in front, which the reference has not"
        if np.array_equal(candidate[..., :-lag], reference[..., lag:]):
            return f"the candidate lacks {_list(reference[..., :lag])}, which the reference has in front"
    return None


def _lengths(reference: np.ndarray, candidate: np.ndarray) -> str:
    """Describe the difference of ids of different lengths."""
    lengths = f"{candidate.shape[-1]} ids in place of {reference.shape[-1]}"
    if reference.shape[:-1] != candidate.shape[:-1]:
        return f"shapes {list(candidate.shape)} in place of {list(reference.shape)}"
    longer, shorter = (candidate, reference) if candidate.shape[-1] > reference.shape[-1] else (reference, candidate)
    verb = "has" if longer is candidate else "lacks"
    for start in range(min(longer.shape[-1] - shorter.shape[-1], _MOST_EXTRA) + 1):
        stop = start + shorter.shape[-1]
        if np.array_equal(longer[..., start:stop], shorter):
            parts = [
                f"{_list(part)} {where}"
                for part, where in ((longer[..., :start], "in front"), (longer[..., stop:], "at the end"))
                if part.shape[-1]
            ]
            return f"{lengths}: the candidate {verb} {' and '.join(parts)}; the rest is equal"
    least = shorter.shape[-1]
    same = (reference[..., :least] == candidate[..., :least]).reshape(-1, least).all(axis=0)
    first = int(np.argmin(same)) if not same.all() else least
    return f"{lengths}; they part at index {first}"


def _list(ids: np.ndarray) -> str:
    flat = [str(int(number)) for number in ids.reshape(-1)]
    return ", ".join(flat[:_NAMED]) + (" …" if len(flat) > _NAMED else "")


class PositionOffset(Hypothesis):
    """Positions start at another number.

    A cache is counted twice or not at all, padding counts as tokens, or positions start at 1 or 2 in place of 0.

    Tested on whole numbers that rise by one from token to token on both sides. Start where the reference starts.
    """

    code = "position.offset"

    def applies(self, case: Case) -> bool:
        return case.comparable and are_ids(case.reference_as_recorded) and are_ids(case.candidate_as_recorded)

    def test(self, case: Case) -> Iterator[Explanation]:
        reference, candidate = case.expected, case.candidate
        if reference.shape[-1:] < (3,) or not all(
            np.all(np.diff(side, axis=-1) == 1) for side in (reference, candidate)
        ):
            return
        offsets = np.unique(candidate - reference)
        if offsets.size == 1:
            fit = case.fit(reference + offsets[0])
            yield Explanation(
                cause=self.code,
                fit=fit,
                evidence=f"positions start at {candidate.flat[0]:g} in place of {reference.flat[0]:g}: "
                f"{case.falls_to(fit)}",
                fix=f"start at {reference.flat[0]:g}",
                implies=("ids.mismatch", "offset.constant", "shift.sequence"),
                predicted=reference + offsets[0],
            )


HYPOTHESIS: Final = IdsMismatch()
POSITION: Final = PositionOffset()
