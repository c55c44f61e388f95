"""Rows that are sound: what the ear would make of them, beside the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from firstdiff.pairing import PairingResult
from firstdiff.schema import Pair
from firstdiff.trace import Record, Tensor

_SAYS_SO = frozenset({"audio", "sample_rate", "sampling_rate", "samplerate", "sr"})


def with_sound(pair: Pair, references: Sequence[Tensor], candidates: Sequence[Tensor]) -> Pair:
    """The row with its audio report, where one tensor is held against one and either is marked as sound."""
    alone = len(references) == len(candidates) == 1
    if not alone or not (_may_be_sound(references[0].record) or _may_be_sound(candidates[0].record)):
        return pair
    from firstdiff.audio import compare_marked
    from firstdiff.audio.scientific import has_scipy

    report = compare_marked(references[0], candidates[0]) if has_scipy() else None
    return pair if report is None else replace(pair, audio=report.as_plain())


def unheard(paired: PairingResult) -> tuple[str, ...]:
    """A warning where there is sound, and nothing to compare it with."""
    if not any(_may_be_sound(tensor.record) for tensor in paired.reference):
        return ()
    from firstdiff.audio import marked
    from firstdiff.audio.scientific import MISSING, has_scipy

    return () if has_scipy() or not any(marked(tensor) for tensor in paired.reference) else (MISSING,)


def _may_be_sound(record: Record) -> bool:
    return record.dims is not None or not _SAYS_SO.isdisjoint(record.attrs)
