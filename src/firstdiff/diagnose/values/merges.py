"""Hypothesis: text split into other tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Fit, Hypothesis
from firstdiff.diagnose.values.ids import are_ids

_Span = tuple[int, ...]
_MOST_ROWS, _LONGEST = 16, 2048
_LONGEST_WORD = 8
_MOST_OFTEN = 128
_MOST_EQUAL = 0.6
# another word in the text looks like one word cut otherwise; the same word again and again does not
_ONE_WORD, _EACH_MORE = 0.35, 0.5
_NAMED = 3


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
        reference, candidate = (_rows(side) for side in (case.reference_as_recorded, case.candidate_as_recorded))
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
        words = [f"{_listed(one)} became {_listed(other)}" for one, other in dict.fromkeys(cut)]
        more = f" and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
        yield Explanation(
            cause=self.code,
            fit=Fit(0.0, 0.0, float("inf")),
            evidence=f"{', '.join(words[:_NAMED])}{more}; all other ids are equal, moved along by that",
            fix="use the reference's merges (merges.txt, tokenizer.json) and its normalisation of the text",
            implies=("ids.mismatch", "shift.sequence", "values.uncorrelated"),
            doubt=_ONE_WORD * _EACH_MORE ** (len(cut) - 1),
        )


def _words_cut_otherwise(reference: list[int], candidate: list[int]) -> list[tuple[_Span, _Span]] | None:
    """Return the spans of tokens that replace each other; None if anything else differs as well.

    Where both sides have one length, the last tokens may differ, since both are cut to that length.
    """
    often = max(map(max, (Counter(reference).values(), Counter(candidate).values())))
    if max(len(reference), len(candidate)) > _LONGEST or often > _MOST_OFTEN:  # to line up what is all alike takes long
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


def _rows(ids: np.ndarray | None) -> list[list[int]]:
    if ids is None or not ids.size:
        return []
    rows = ids.reshape(-1, ids.shape[-1] if ids.ndim else 1)[:_MOST_ROWS]
    return [_without_padding([int(number) for number in row]) for row in rows]


def _without_padding(row: list[int]) -> list[int]:
    """Without the same number over and over at either end, but for one."""
    start, stop = 0, len(row)
    while start + 1 < stop and row[start] == row[start + 1]:
        start += 1
    while stop - 2 >= start and row[stop - 1] == row[stop - 2]:
        stop -= 1
    return row[start:stop]


def _listed(span: _Span) -> str:
    return " ".join(map(str, span))


HYPOTHESIS: Final = TokenizerMerges()
