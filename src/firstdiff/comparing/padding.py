"""Exclude padding from the comparison: tokens that a mask hides have no meaningful values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from firstdiff.comparing.pair_comparison import PairComparison
from firstdiff.comparing.rows import MatchedPair
from firstdiff.errors import ReadError
from firstdiff.judge import tokens_that_see_nothing
from firstdiff.locate import MeasuredPair
from firstdiff.trace import Tensor

_ENOUGH = 4  # masks of a step that are looked at: all layers have the same


def leave_out_padding(
    comparison: PairComparison, matched: Sequence[MatchedPair], rows: Sequence[MeasuredPair]
) -> list[MeasuredPair]:
    """Let rows match that differ only in tokens from which everything is hidden.

    Kernels disagree about them: one gives the mean of all values, another zeros, a third NaN. They reach nothing else,
    and a row that they do reach still differs.
    """
    if not any(row.differs for row in rows):
        return list(rows)
    blind: dict[int, list[np.ndarray]] = {}
    for tensor in _masks(matched):
        known = blind.setdefault(tensor.record.step, [])
        found = _read(tensor) if len(known) < _ENOUGH else None
        if found is not None and not any(np.array_equal(found, other) for other in known):
            known.append(found)
    if not any(blind.values()):
        return list(rows)
    return [_without(comparison, pair, row, blind.get(row.step, ())) for pair, row in zip(matched, rows, strict=True)]


def _masks(matched: Sequence[MatchedPair]) -> Iterator[Tensor]:
    """Yield the mask inputs of calls, on either side."""
    for row in matched:
        for tensor in (*row.references, *row.candidates):
            if tensor.key.role == "input" and "mask" in tensor.key.slot and tensor.source is not None:
                yield tensor


def _read(tensor: Tensor) -> np.ndarray | None:
    try:
        return tokens_that_see_nothing(tensor.values().view())
    except ReadError:
        return None


def _without(
    comparison: PairComparison, matched: MatchedPair, row: MeasuredPair, blind: Sequence[np.ndarray]
) -> MeasuredPair:
    by_default = row.tolerance is not None and row.tolerance.rule == "default"
    if not row.differs or not by_default or row.layout_cause is not None or row.sources is None or row.is_evidence:
        return row
    for tokens in blind:
        for hidden in _places(tokens, row.sources[0].shape):
            found = comparison.without_tokens(matched, row, hidden)
            if found.status == "match":
                reason = f"{int(tokens.sum()):,} tokens that the mask lets see nothing are not compared"
                return replace(found, reason=reason)
    return row


def _places(tokens: np.ndarray, shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    """Mark where those tokens may be: [batch, token, …], [batch, head, token, …], or batch and token as one axis."""
    batch, length = tokens.shape
    for axis in (1, 2):
        if len(shape) > axis and shape[axis] == length and shape[0] == batch:
            ones = (1,) * (len(shape) - axis - 1)
            yield np.broadcast_to(tokens.reshape(batch, *(1,) * (axis - 1), length, *ones), shape)
    if shape and shape[0] == batch * length:
        yield np.broadcast_to(tokens.reshape(-1, *(1,) * (len(shape) - 1)), shape)
