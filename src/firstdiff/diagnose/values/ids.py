"""Token ids that differ, and how."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.fit import Fit
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific

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
        ours, theirs = (np.asarray(side, np.int64) for side in (case.reference_as_recorded, case.candidate_as_recorded))
        if ours.shape == theirs.shape:
            if ours.size and not np.array_equal(ours, theirs):
                yield self._same_shape(ours, theirs)
        elif ours.size and theirs.size and ours.ndim == theirs.ndim:
            yield self._told(_lengths(ours, theirs), Specific.FORM)

    def _same_shape(self, ours: np.ndarray, theirs: np.ndarray) -> Explanation:
        wrong = theirs != ours
        offset = np.unique((theirs - ours)[wrong])
        if wrong.all() and offset.size == 1 and ours.size > 1:
            return self._told(f"all are {int(offset[0]):+d} off", Specific.MISTAKE)
        moved = _moved(ours, theirs)
        if moved is not None:
            return self._told(moved, Specific.MISTAKE)
        at = tuple(int(index) for index in np.argwhere(wrong)[0])
        few = f"{int(wrong.sum()):,} of {ours.size:,} differ, first at {list(at)}: {theirs[at]} in place of {ours[at]}"
        if offset.size == 1:
            few += f"; all by {int(offset[0]):+d}"
        if np.array_equal(np.sort(ours, axis=None), np.sort(theirs, axis=None)):
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
    """Whether whole numbers may be ids: of more than 8 bits, and none below 0 but one that stands for nothing."""
    if values is None or dtypes.kind_of(values.dtype) != "int" or values.dtype.itemsize < 2:
        return False
    return values.dtype.kind == "u" or np.unique(values[values < 0]).size <= 1


def _moved(ours: np.ndarray, theirs: np.ndarray) -> str | None:
    """Whether the last axis is shifted: by tokens at an end, or by padding on the other side."""
    length = ours.shape[-1] if ours.ndim else 0
    if length < 4:
        return None
    for lag in range(1, min(length - 2, _MOST_EXTRA) + 1):
        if np.array_equal(np.roll(ours, lag, axis=-1), theirs):
            pad = np.unique(theirs[..., :lag])
            if pad.size == 1:
                return f"padding ({int(pad[0])}) is on the left in the candidate and on the right in the reference"
            return f"the last axis is rolled by {lag}"
        if np.array_equal(np.roll(ours, -lag, axis=-1), theirs):
            pad = np.unique(ours[..., :lag])
            if pad.size == 1 and lag > 1:
                return f"padding ({int(pad[0])}) is on the right in the candidate and on the left in the reference"
        if np.array_equal(theirs[..., lag:], ours[..., :-lag]):
            return f"the candidate has {_list(theirs[..., :lag])} in front, which the reference has not"
        if np.array_equal(theirs[..., :-lag], ours[..., lag:]):
            return f"the candidate lacks {_list(ours[..., :lag])}, which the reference has in front"
    return None


def _lengths(ours: np.ndarray, theirs: np.ndarray) -> str:
    """What lengths that differ mean."""
    lengths = f"{theirs.shape[-1]} ids in place of {ours.shape[-1]}"
    if ours.shape[:-1] != theirs.shape[:-1]:
        return f"shapes {list(theirs.shape)} in place of {list(ours.shape)}"
    longer, shorter = (theirs, ours) if theirs.shape[-1] > ours.shape[-1] else (ours, theirs)
    verb = "has" if longer is theirs else "lacks"
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
    same = (ours[..., :least] == theirs[..., :least]).reshape(-1, least).all(axis=0)
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
        ours, theirs = case.expected, case.candidate
        if ours.shape[-1:] < (3,) or not all(np.all(np.diff(side, axis=-1) == 1) for side in (ours, theirs)):
            return
        offsets = np.unique(theirs - ours)
        if offsets.size == 1:
            fit = case.fit(ours + offsets[0])
            yield Explanation(
                cause=self.code,
                fit=fit,
                evidence=f"positions start at {theirs.flat[0]:g} in place of {ours.flat[0]:g}: {case.falls_to(fit)}",
                fix=f"start at {ours.flat[0]:g}",
                implies=("ids.mismatch", "offset.constant", "shift.sequence"),
                predicted=ours + offsets[0],
            )


HYPOTHESIS: Final = IdsMismatch()
POSITION: Final = PositionOffset()
