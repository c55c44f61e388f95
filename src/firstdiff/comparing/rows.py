"""Rows before measuring: their tensors, pairing, the reason a partner is missing, and audio marks."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firstdiff.dtypes import name_of
from firstdiff.errors import UsageError, did_you_mean
from firstdiff.locate import MeasuredPair
from firstdiff.pairing import Match, PairingResult, Unpaired
from firstdiff.schema import Pair, Status, TensorInfo
from firstdiff.trace import Record, Tensor
from firstdiff.trace.order import layer_and_stage

_NESTED = re.compile(r"(?:.*[._/])?(?:layers?|h|blocks?|blk)[._](\d+)(?:[._](.+))?")
_MARKS_SOUND = frozenset({"audio", "sample_rate", "sampling_rate", "samplerate", "sr"})
# comparing sounds takes many times their size in memory; rows are measured in several threads
_ONE_SOUND_AT_A_TIME = threading.Lock()


@dataclass(frozen=True, slots=True)
class MatchedPair:
    """The tensors of one row, in the order of the reference; of several tensors the first stands for all.

    match: how they were paired; None for a tensor without a partner, which `unpaired` is about
    """

    index: int
    references: tuple[Tensor, ...]
    candidates: tuple[Tensor, ...]
    match: Match | None = None
    unpaired: Unpaired | None = None

    @property
    def first(self) -> Tensor:
        return (self.references or self.candidates)[0]

    @property
    def key(self) -> str:
        return str(self.first.key)

    @property
    def stage(self) -> str:
        """The name without its layer: rows of one stage have the same layout in every layer."""
        return re.sub(r"\d+", "#", self.key)

    @property
    def nbytes(self) -> int:
        return sum(tensor.source.nbytes for tensor in (*self.references, *self.candidates) if tensor.source)

    def measured(self, status: Status, **figures: Any) -> MeasuredPair:
        """Return the row with its verdict; `figures` are the other fields of a MeasuredPair."""
        record = self.first.record
        layer, stage = _layer_and_stage(record.name)
        values: dict[str, Any] = {
            "index": self.index,
            "key": self.key,
            "name": record.name,
            "role": self.first.key.role,
            "step": record.step,
            "rank": record.rank,
            "op": record.op,
            "layer": layer,
            "stage": stage,
            "status": status,
            "reference": self.references[0] if self.references else None,
            "candidate": self.candidates[0] if self.candidates else None,
            "pairing": self.match.pairing if self.match else None,
            "parts": self.references if len(self.references) > 1 and len(self.candidates) == 1 else (),
        }
        sides = {"reference_info": self.references, "candidate_info": self.candidates}
        values |= {name: tensor_info(tensors) for name, tensors in sides.items() if name not in figures}
        return MeasuredPair(**{**values, **figures})

    def without_partner(self) -> MeasuredPair:
        """Return the row of a tensor that only one side has."""
        side = "reference" if self.references else "candidate"
        guess = self.unpaired.guess if self.unpaired else None
        nearest = f"; the nearest is {guess.key} ({guess.why})" if guess else ""
        unreadable = f", and it cannot be read: it {self.first.error}" if self.first.error else ""
        reason = f"only the {side} has it{unreadable}{nearest}"
        return self.measured("missing" if self.references else "extra", reason=reason)


def matched_pairs(paired: PairingResult) -> list[MatchedPair]:
    """List all rows in the order of the reference, then what only the candidate has."""
    references, candidates = paired.reference.tensors, paired.candidate.tensors
    rows: list[tuple[int, tuple[Tensor, ...], tuple[Tensor, ...], Match | None, Unpaired | None]] = [
        (
            match.reference[0],
            tuple(references[place] for place in match.reference),
            tuple(candidates[place] for place in match.candidate),
            match,
            None,
        )
        for match in paired.pairs
    ]
    rows += [(left.index, (references[left.index],), (), None, left) for left in paired.missing]
    rows.sort(key=lambda row: row[0])
    rows += [(left.index, (), (candidates[left.index],), None, left) for left in paired.extra]
    return [MatchedPair(index, *row[1:]) for index, row in enumerate(rows)]


def row_named(pairs: Sequence[Pair], key: str) -> Pair:
    """Return the row of a key of either side; UsageError names those that are nearly it."""
    return pairs[index_named([(pair.key, pair.reference, pair.candidate) for pair in pairs], key)]


def index_named(rows: Iterable[tuple[str, TensorInfo | None, TensorInfo | None]], key: str) -> int:
    """Return the index of a key of either side among rows of a key and two sides."""
    names: dict[str, None] = {}
    for index, (row_key, *sides) in enumerate(rows):
        of_row = [row_key, *(name for side in sides if side is not None for name in (side.name, *side.keys))]
        if key in of_row:
            return index
        names |= dict.fromkeys(of_row)
    raise UsageError(f"neither side has a tensor {key!r}{did_you_mean(key, names)}")


def tensor_info(tensors: Sequence[Tensor]) -> TensorInfo | None:
    """Return what a report says of one side of a row; None where there is none."""
    if not tensors:
        return None
    keys = tuple(str(tensor.key) for tensor in tensors)
    source = tensors[0].source
    shape, dtype = (source.shape, name_of(source.dtype)) if source else (None, None)
    return TensorInfo(" + ".join(keys), shape, dtype, keys=keys)


def audio_of(matched: MatchedPair) -> Mapping[str, Any] | None:
    """Return the audio report of a row, where one tensor is held against one and either is marked as sound."""
    alone = len(matched.references) == len(matched.candidates) == 1
    if not alone or not any(_may_be_sound(side[0].record) for side in (matched.references, matched.candidates)):
        return None
    from firstdiff.audio import compare_marked
    from firstdiff.audio.sound import has_scipy

    if not has_scipy():
        return None
    with _ONE_SOUND_AT_A_TIME:
        report = compare_marked(matched.references[0], matched.candidates[0])
    return None if report is None else report.as_plain()


def audio_warnings(paired: PairingResult) -> tuple[str, ...]:
    """Warn where there is sound, and nothing to compare it with."""
    if not any(_may_be_sound(tensor.record) for tensor in paired.reference):
        return ()
    from firstdiff.audio import marked
    from firstdiff.audio.sound import MISSING, has_scipy

    return () if has_scipy() or not any(marked(tensor) for tensor in paired.reference) else (MISSING,)


def _may_be_sound(record: Record) -> bool:
    return record.dims is not None or not _MARKS_SOUND.isdisjoint(record.attrs)


def _layer_and_stage(name: str) -> tuple[int | None, str | None]:
    if found := layer_and_stage(name):
        return found
    nested = _NESTED.fullmatch(name)
    return (int(nested[1]), nested[2]) if nested else (None, None)
