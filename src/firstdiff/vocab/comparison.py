"""Compare two vocabularies: sizes, the first ids that differ, tokens of one side only, and the order of merges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from firstdiff.vocab.files import Vocabulary

SCHEMA = "firstdiff/vocab/1"
_SHOWN = 5
_LEAST_SHIFTED = 0.5


@dataclass(frozen=True, slots=True)
class IdDifference:
    """An id that stands for another token on each side; None where it stands for none."""

    id: int
    reference: str | None
    candidate: str | None


@dataclass(frozen=True, slots=True)
class MergeDifference:
    """A rank at which other pieces are merged."""

    rank: int
    reference: str | None
    candidate: str | None


@dataclass(frozen=True, slots=True)
class VocabComparison:
    """Everything in which two vocabularies differ.

    different_ids: how many ids stand for another token
    first: the first of them
    only_reference, only_candidate: tokens that one side has alone
    moved: tokens that both have under another id
    shift: what most moved tokens are moved by; None where they are moved by no one number
    merges: None where a side has none
    """

    reference: Vocabulary
    candidate: Vocabulary
    different_ids: int
    first: tuple[IdDifference, ...]
    only_reference: tuple[str, ...]
    only_candidate: tuple[str, ...]
    moved: int
    shift: int | None
    first_merge: MergeDifference | None
    different_merges: int
    same_merges_in_other_order: bool

    @property
    def verdict(self) -> Literal["match", "mismatch"]:
        return "mismatch" if self.different_ids or self.different_merges else "match"

    def to_plain(self) -> dict[str, Any]:
        """Return what the JSON says."""
        return {
            "schema": SCHEMA,
            "verdict": self.verdict,
            "reference": _side(self.reference),
            "candidate": _side(self.candidate),
            "different_ids": self.different_ids,
            "first": self.first,
            "only_reference": {"count": len(self.only_reference), "first": self.only_reference[:_SHOWN]},
            "only_candidate": {"count": len(self.only_candidate), "first": self.only_candidate[:_SHOWN]},
            "moved": self.moved,
            "shift": self.shift,
            "merges": {
                "different": self.different_merges,
                "first": self.first_merge,
                "other_order": self.same_merges_in_other_order,
            },
        }

    def lines(self) -> Iterator[str]:
        """Yield the comparison in words."""
        for name, side in (("reference", self.reference), ("candidate", self.candidate)):
            merges = "" if side.merges is None else f", {len(side.merges):,} merges"
            yield f"{name}: {side.path}, {side.form}, {side.size:,} tokens{merges}"
            yield from (f"  {sentence}" for sentence in side.repeated[:_SHOWN])
        if self.verdict == "match":
            yield "MATCH: every id stands for the same token on both sides"
            return
        if self.different_ids:
            total = max(len(self.reference), len(self.candidate))
            yield f"MISMATCH: {self.different_ids:,} of {total:,} ids stand for another token"
        else:
            yield "MISMATCH: every id stands for the same token, but merges differ"
        for difference in self.first:
            yield f"  id {difference.id}: {_shown(difference.reference)} became {_shown(difference.candidate)}"
        for name, tokens in (("reference", self.only_reference), ("candidate", self.only_candidate)):
            if tokens:
                yield f"only in the {name}: {len(tokens):,} ({_listed(tokens)})"
        if self.moved:
            by = f", most of them by {self.shift:+d}" if self.shift is not None else ""
            yield f"{self.moved:,} tokens have another id on each side{by}"
        yield from self._merge_lines()

    def _merge_lines(self) -> Iterator[str]:
        first = self.first_merge
        if first is None:
            if (self.reference.merges is None) != (self.candidate.merges is None):
                alone = "reference" if self.candidate.merges is None else "candidate"
                yield f"only the {alone} has merges, so their order was not compared"
            return
        yield (
            f"{self.different_merges:,} merges differ, first at rank {first.rank}: "
            f"{_shown(first.reference)} became {_shown(first.candidate)}"
        )
        if self.same_merges_in_other_order:
            yield "both sides have the same merges in another order, so the same text gets other ids"


def compare_vocabularies(reference: Vocabulary, candidate: Vocabulary) -> VocabComparison:
    """Compare id by id, then the order of merges."""
    total = max(len(reference), len(candidate))
    different = [
        IdDifference(index, *sides)
        for index in range(total)
        if (sides := (_at(reference.tokens, index), _at(candidate.tokens, index)))[0] != sides[1]
    ]
    ids = [
        {token: index for index, token in enumerate(side.tokens) if token is not None}
        for side in (reference, candidate)
    ]
    moved = [ids[1][token] - index for token, index in ids[0].items() if ids[1].get(token, index) != index]
    offsets = Counter(moved).most_common(1)
    shift = offsets[0][0] if offsets and offsets[0][1] >= max(2, _LEAST_SHIFTED * len(moved)) else None
    merges = _merges(reference.merges, candidate.merges)
    same_set = bool(merges) and sorted(reference.merges or ()) == sorted(candidate.merges or ())
    return VocabComparison(
        reference=reference,
        candidate=candidate,
        different_ids=len(different),
        first=tuple(different[:_SHOWN]),
        only_reference=tuple(token for token in ids[0] if token not in ids[1]),
        only_candidate=tuple(token for token in ids[1] if token not in ids[0]),
        moved=len(moved),
        shift=shift,
        first_merge=merges[0] if merges else None,
        different_merges=len(merges),
        same_merges_in_other_order=same_set,
    )


def _merges(reference: Sequence[str] | None, candidate: Sequence[str] | None) -> list[MergeDifference]:
    if reference is None or candidate is None:
        return []
    return [
        MergeDifference(rank, *sides)
        for rank in range(max(len(reference), len(candidate)))
        if (sides := (_at(reference, rank), _at(candidate, rank)))[0] != sides[1]
    ]


def _at(values: Sequence[str | None], index: int) -> str | None:
    return values[index] if index < len(values) else None


def _side(side: Vocabulary) -> dict[str, Any]:
    return {
        "path": side.path,
        "form": side.form,
        "size": side.size,
        "ids": len(side),
        "merges": None if side.merges is None else len(side.merges),
        "repeated": side.repeated[:_SHOWN],
    }


def _shown(text: str | None) -> str:
    return "nothing" if text is None else repr(text)


def _listed(tokens: Sequence[str]) -> str:
    return ", ".join(map(repr, tokens[:_SHOWN])) + (" …" if len(tokens) > _SHOWN else "")
