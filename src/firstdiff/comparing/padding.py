"""Exclude padding from the comparison: tokens that a mask hides have no meaningful values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from firstdiff.comparing.pair_comparison import PairComparison
from firstdiff.comparing.rows import MatchedPair
from firstdiff.comparing.upstream_noise import matching
from firstdiff.errors import ReadError
from firstdiff.judge import tokens_that_see_nothing
from firstdiff.locate import MeasuredPair, RowGraph
from firstdiff.trace import Tensor

_FEWEST_PLACES = 3
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


def accept_counted_tokens(matched: Sequence[MatchedPair], rows: Sequence[MeasuredPair]) -> list[MeasuredPair]:
    """Let places match that each side counts from its own first token, padding or not, if nothing made of them differs.

    Where the candidate's text has padding before it, its places go on from there.
    """
    counted = {
        row.index for pair, row in zip(matched, rows, strict=True) if row.differs and _counts_all_tokens(pair, row)
    }
    if not counted:
        return list(rows)
    users: dict[int, list[int]] = {}
    for place, fed in enumerate(RowGraph(rows).compared):
        for at in fed.rows:
            users.setdefault(at, []).append(place)
    wrong = counted
    while wrong:  # one that is made of another may be what shows it to be wrong
        wrong = {at for at in counted if any(rows[user].differs and user not in counted for user in users.get(at, ()))}
        counted -= wrong
    reason = "each side counts from the first token it was given; nothing made of it differs"
    return [matching(row, reason) if row.index in counted else row for row in rows]


def _counts_all_tokens(matched: MatchedPair, row: MeasuredPair) -> bool:
    """True for a part of places that both sides count up from the same number."""
    if row.sources is None or len(matched.references) != 1 or len(matched.candidates) != 1:
        return False
    whole = [side.values().view() for side in (*matched.references, *matched.candidates)]
    lengths = {values.shape[-1:] for values in whole}
    return len(lengths) == 2 and all(_count_up(values) for values in whole) and whole[0].flat[0] == whole[1].flat[0]


def _count_up(values: np.ndarray) -> bool:
    if values.dtype.kind not in "iu" or not values.ndim or values.shape[-1] < _FEWEST_PLACES:
        return False
    return bool(np.all(np.diff(values, axis=-1) == 1))


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
