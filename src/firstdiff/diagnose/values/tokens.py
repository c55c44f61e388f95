"""Hypotheses: token ids that differ, or text that is split into other tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Fit, Hypothesis, Specific

_NAMED_IDS = 4
_MOST_EXTRA = 64
_TOKENIZER_FIX = "compare the tokenizers: special tokens, merges, normalisation of the text, padding and truncation"


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
            yield self._told(_describe_lengths(reference, candidate), Specific.FORM)

    def _same_shape(self, reference: np.ndarray, candidate: np.ndarray) -> Explanation:
        wrong = candidate != reference
        offset = np.unique((candidate - reference)[wrong])
        if wrong.all() and offset.size == 1 and reference.size > 1:
            return self._told(f"all are {int(offset[0]):+d} off", Specific.MISTAKE)
        moved = _describe_shift(reference, candidate)
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
            fix=_TOKENIZER_FIX,
            specific=specific,
            implies=("offset.constant", "shift.sequence", "values.uncorrelated", "values.zero"),
        )


def are_ids(values: np.ndarray | None) -> bool:
    """True if values may be ids: integers of more than 8 bits, with at most one negative value (such as -100)."""
    if values is None or dtypes.kind_of(values.dtype) != "int" or values.dtype.itemsize < 2:
        return False
    return values.dtype.kind == "u" or np.unique(values[values < 0]).size <= 1


def _describe_shift(reference: np.ndarray, candidate: np.ndarray) -> str | None:
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
            return f"the candidate has {_listed_ids(candidate[..., :lag])} in front, which the reference has not"
        if np.array_equal(candidate[..., :-lag], reference[..., lag:]):
            return f"the candidate lacks {_listed_ids(reference[..., :lag])}, which the reference has in front"
    return None


def _describe_lengths(reference: np.ndarray, candidate: np.ndarray) -> str:
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
                f"{_listed_ids(part)} {where}"
                for part, where in ((longer[..., :start], "in front"), (longer[..., stop:], "at the end"))
                if part.shape[-1]
            ]
            return f"{lengths}: the candidate {verb} {' and '.join(parts)}; the rest is equal"
    least = shorter.shape[-1]
    same = (reference[..., :least] == candidate[..., :least]).reshape(-1, least).all(axis=0)
    first = int(np.argmin(same)) if not same.all() else least
    return f"{lengths}; they part at index {first}"


def _listed_ids(ids: np.ndarray) -> str:
    flat = [str(int(number)) for number in ids.reshape(-1)]
    return ", ".join(flat[:_NAMED_IDS]) + (" …" if len(flat) > _NAMED_IDS else "")


_Span = tuple[int, ...]
_MOST_ROWS, _LONGEST = 16, 2048
_LONGEST_WORD = 8
_MOST_OFTEN = 128
_MOST_EQUAL = 0.6
# doubts: a single difference may be another word in the text; each further one makes that unlikely
_ONE_WORD, _EACH_MORE = 0.35, 0.5
_NAMED_WORDS = 3


class TokenizerMerges(Hypothesis):
    """Some words are cut into other tokens: pieces that should be merged are not, or the other way round.

    The merges of the tokenizer are missing or in another order, the text was normalised otherwise, or words are taken
    for unknown ones. One token stands where there should be several, or several where there should be one; all
    other tokens are the same, further on.

    Tested by lining up both sequences of ids: all that differs must be words of one number of tokens that have
    another, each in the same way wherever it comes. Use the reference's merges and its normalisation of the text.
    """

    code = "tokenizer.merges"

    def applies(self, case: Case) -> bool:
        return are_ids(case.reference_as_recorded) and are_ids(case.candidate_as_recorded)

    def test(self, case: Case) -> Iterator[Explanation]:
        reference, candidate = (
            _rows_without_padding(side) for side in (case.reference_as_recorded, case.candidate_as_recorded)
        )
        if not reference or len(reference) != len(candidate):
            return
        cut: list[tuple[_Span, _Span]] = []
        for one, other in zip(reference, candidate, strict=True):
            found = _words_cut_otherwise(one, other)
            if found is None:
                return
            cut += found
        if not any(len(one) != len(other) for one, other in cut) or not _one_to_one(cut):
            return
        words = [f"{_listed_span(one)} became {_listed_span(other)}" for one, other in dict.fromkeys(cut)]
        more = f" and {len(words) - _NAMED_WORDS} more" if len(words) > _NAMED_WORDS else ""
        yield Explanation(
            cause=self.code,
            fit=Fit(0.0, 0.0, float("inf")),
            evidence=f"{', '.join(words[:_NAMED_WORDS])}{more}; all other ids are equal, moved along by that",
            fix="use the reference's merges (merges.txt, tokenizer.json) and its normalisation of the text",
            implies=("ids.mismatch", "shift.sequence", "values.uncorrelated"),
            doubt=_ONE_WORD * _EACH_MORE ** (len(cut) - 1),
        )


def _words_cut_otherwise(reference: list[int], candidate: list[int]) -> list[tuple[_Span, _Span]] | None:
    """Return the spans of tokens that replace each other; None if anything else differs as well.

    Where both sides have one length, the last tokens may differ, since both are cut to that length.
    """
    often = max(map(max, (Counter(reference).values(), Counter(candidate).values())))
    if (
        max(len(reference), len(candidate)) > _LONGEST or often > _MOST_OFTEN
    ):  # aligning repetitive sequences takes long
        return None
    found: list[tuple[_Span, _Span]] = []
    equal = 0
    for kind, start, stop, begin, end in SequenceMatcher(None, reference, candidate, autojunk=False).get_opcodes():
        one, other = tuple(reference[start:stop]), tuple(candidate[begin:end])
        at_end = len(reference) == len(candidate) and stop == len(reference) and end == len(candidate)
        if kind == "equal":
            equal += len(one)
        elif at_end and found:
            return found if equal >= _MOST_EQUAL * min(start, begin) else None
        elif not one or not other or len(one) == len(other) == 1 or max(len(one), len(other)) > _LONGEST_WORD:
            return None
        else:
            found.append((one, other))
    return found if equal >= _MOST_EQUAL * min(len(reference), len(candidate)) else None


def _one_to_one(cut: list[tuple[_Span, _Span]]) -> bool:
    """True if each span is always replaced by the same tokens, and no two spans by the same ones."""
    every = set(cut)
    return len({one for one, _ in every}) == len({other for _, other in every}) == len(every)


def _rows_without_padding(ids: np.ndarray | None) -> list[list[int]]:
    if ids is None or not ids.size:
        return []
    rows = ids.reshape(-1, ids.shape[-1] if ids.ndim else 1)[:_MOST_ROWS]
    return [_without_padding([int(number) for number in row]) for row in rows]


def _without_padding(row: list[int]) -> list[int]:
    """Remove the repeated number at either end, but for one."""
    start, stop = 0, len(row)
    while start + 1 < stop and row[start] == row[start + 1]:
        start += 1
    while stop - 2 >= start and row[stop - 1] == row[stop - 2]:
        stop -= 1
    return row[start:stop]


def _listed_span(span: _Span) -> str:
    return " ".join(map(str, span))


IDS_MISMATCH: Final = IdsMismatch()
TOKENIZER_MERGES: Final = TokenizerMerges()
