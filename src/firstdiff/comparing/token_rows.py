"""Compare token rows: the agreement of logits, and the first id that differs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from firstdiff import dtypes
from firstdiff.errors import FirstdiffError
from firstdiff.locate import MeasuredPair
from firstdiff.schema import ArgmaxChange, Comparison, IdsAgreement, LogitsAgreement, Tolerance
from firstdiff.trace import Source
from firstdiff.vocab import Vocabulary

# a whole sequence of a large model has half a billion logits; this many take half a second
MAX_LOGITS = 1 << 24
_BLOCK = 1 << 18
_TOP = 5
_LEAST_VOCABULARY = 4
_NAMED = re.compile(r"(?:^|[._/])(?:\w*logits?|lm_head|log_?probs?|log_scores?)(?:$|[._/@:#])", re.IGNORECASE)


def with_tokens(comparison: Comparison, rows: Sequence[MeasuredPair], vocab: Vocabulary | None) -> Comparison:
    """Return the comparison with what its rows say about tokens, and warnings for vocabularies of another size.

    rows: the measured rows, in the order of the comparison's pairs
    """
    pairs, warnings = list(comparison.pairs), []
    for place, row in enumerate(rows):
        found = pairs[place]
        if found.status not in ("match", "mismatch") or row.role in ("param", "buffer", "grad"):
            continue
        sides = _sides(row)
        if sides is None:
            continue
        other = _other_vocabulary(row, sides)
        if other is not None:
            warnings.append(other)
        try:
            if _are_logits(row, sides, vocab):
                logits = logits_agreement(*sides, row.tolerance, is_match=found.status == "match", vocab=vocab)
                pairs[place] = replace(found, logits=logits)
                size = sides[0].shape[-1]
                if vocab is not None and size != len(vocab):
                    warnings.append(f"{vocab.path} has {len(vocab):,} ids, but {row.key} has {size:,} on its last axis")
            elif found.status == "mismatch" and all(_may_be_ids(side) for side in sides):
                pairs[place] = replace(found, ids=ids_agreement(*sides, vocab))
        except FirstdiffError:  # a file that went away since it was measured
            continue
    return replace(comparison, pairs=tuple(pairs), warnings=(*comparison.warnings, *warnings))


def _sides(row: MeasuredPair) -> tuple[Source, Source] | None:
    if row.reference is None or row.candidate is None or row.reference.source is None or row.candidate.source is None:
        return None
    return row.reference.source, row.candidate.source


def _are_logits(row: MeasuredPair, sides: tuple[Source, Source], vocab: Vocabulary | None) -> bool:
    """Return True for floats of one shape that are named so, or whose last axis is as long as the vocabulary."""
    shape = sides[0].shape
    if shape != sides[1].shape or not shape or shape[-1] < _LEAST_VOCABULARY or not sides[0].size:
        return False
    if any(dtypes.kind_of(side.dtype) != "float" for side in sides):
        return False
    return bool(_NAMED.search(row.name)) or (vocab is not None and shape[-1] == len(vocab))


def _other_vocabulary(row: MeasuredPair, sides: tuple[Source, Source]) -> str | None:
    """Say that logits of both runs stand for vocabularies of other sizes."""
    shape, other = (side.shape for side in sides)
    if not _NAMED.search(row.name) or not shape or shape[:-1] != other[:-1] or shape[-1] == other[-1]:
        return None
    return (
        f"vocabularies of another size: {row.key} has {other[-1]:,} tokens on its last axis in place of {shape[-1]:,}; "
        "compare the vocabularies with `firstdiff vocab`"
    )


def _may_be_ids(source: Source) -> bool:
    return source.dtype.kind in "iu" and source.dtype.itemsize > 1 and source.size > 0


def logits_agreement(
    reference: Source,
    candidate: Source,
    tolerance: Tolerance | None,
    *,
    is_match: bool = False,
    vocab: Vocabulary | None = None,
) -> LogitsAgreement:
    """Compare logits position by position: best tokens, divergence of the distributions, first other argmax.

    tolerance: what rounding may do to a value; a gap of the two best below twice that is a near tie
    is_match: all differences are within the tolerance, so that any other argmax is a near tie
    """
    size = reference.shape[-1]
    positions = reference.size // size
    looked_at = min(positions, max(1, MAX_LOGITS // size))
    height = max(1, _BLOCK // size)
    left_out = same_best = 0
    shared, total_kl = 0.0, 0.0
    worst: tuple[float, int] | None = None
    first: ArgmaxChange | None = None
    for start in range(0, looked_at, height):
        stop = min(start + height, looked_at)
        ref, cand = (
            side.window(start * size, stop * size).astype(np.float64).reshape(-1, size)
            for side in (reference, candidate)
        )
        usable = _usable(ref) & _usable(cand)
        left_out += int(np.count_nonzero(~usable))
        places = np.flatnonzero(usable) + start
        ref, cand = ref[usable], cand[usable]
        if not len(ref):
            continue
        best, other = ref.argmax(axis=1), cand.argmax(axis=1)
        same_best += int(np.count_nonzero(best == other))
        shared += float(_shared_top(ref, cand).sum())
        divergence = _kl(ref, cand)
        total_kl += float(divergence.sum())
        top = int(divergence.argmax())
        if worst is None or divergence[top] > worst[0]:
            worst = float(divergence[top]), int(places[top])
        if first is None and (best != other).any():
            at = int((best != other).argmax())
            index = np.unravel_index(int(places[at]), reference.shape[:-1]) if reference.shape[:-1] else ()
            first = _change(ref[at], tuple(map(int, index)), int(best[at]), int(other[at]), tolerance, is_match, vocab)
    used = looked_at - left_out
    return LogitsAgreement(
        vocab_size=size,
        positions=positions,
        looked_at=looked_at,
        not_finite=left_out,
        same_argmax=same_best / used if used else None,
        top_k=min(_TOP, size),
        shared_top_k=shared / used if used else None,
        mean_kl=total_kl / used if used else None,
        max_kl=worst[0] if worst else None,
        first_argmax=first,
    )


def _usable(rows: np.ndarray) -> np.ndarray:
    """Return True for rows that are a distribution: a logit of -inf hides a token, NaN and +inf are no logits."""
    return np.asarray(~np.isnan(rows).any(axis=1) & ~np.isposinf(rows).any(axis=1) & np.isfinite(rows).any(axis=1))


def _shared_top(reference: np.ndarray, candidate: np.ndarray) -> np.ndarray:
    count = min(_TOP, reference.shape[1])
    tops = [np.argpartition(-side, count - 1, axis=1)[:, :count] for side in (reference, candidate)]
    return np.asarray((tops[0][:, :, None] == tops[1][:, None, :]).any(axis=2).mean(axis=1))


def _kl(reference: np.ndarray, candidate: np.ndarray) -> np.ndarray:
    """Return the divergence of the candidate's distribution from the reference's, in nats."""
    log_p, log_q = _log_softmax(reference), _log_softmax(candidate)
    chance = np.exp(log_p)
    with np.errstate(invalid="ignore"):  # a token that is hidden on both sides
        terms = np.where(chance > 0, chance * (log_p - log_q), 0.0)
    return np.asarray(np.maximum(terms.sum(axis=1), 0.0))


def _log_softmax(rows: np.ndarray) -> np.ndarray:
    shifted = rows - rows.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def _change(
    row: np.ndarray,
    index: tuple[int, ...],
    best: int,
    other: int,
    tolerance: Tolerance | None,
    is_match: bool,
    vocab: Vocabulary | None,
) -> ArgmaxChange:
    gap = float(row[best] - row[other])
    noise = 0.0
    if tolerance is not None:
        noise = 2 * (tolerance.atol + tolerance.rtol * float(max(abs(row[best]), min(abs(row[other]), 1e300))))
    return ArgmaxChange(
        index=index,
        reference=best,
        candidate=other,
        reference_token=vocab.decode(best) if vocab else None,
        candidate_token=vocab.decode(other) if vocab else None,
        gap=gap,
        noise=noise,
        near_tie=is_match or gap <= noise,
    )


def ids_agreement(reference: Source, candidate: Source, vocab: Vocabulary | None) -> IdsAgreement | None:
    """Find the first id that differs; where lengths differ, in what both have of the last axis."""
    shape, other = reference.shape, candidate.shape
    if shape[:-1] != other[:-1] or not shape:
        return None
    length, their_length = shape[-1], other[-1]
    common = min(length, their_length)
    count, first = 0, None
    for row in range(reference.size // max(length, 1)):
        for start in range(0, common, _BLOCK):
            stop = min(start + _BLOCK, common)
            ref = reference.window(row * length + start, row * length + stop)
            cand = candidate.window(row * their_length + start, row * their_length + stop)
            differs = ref != cand
            if differs.any() and first is None:
                at = int(differs.argmax())
                outer = np.unravel_index(row, shape[:-1]) if shape[:-1] else ()
                first = (*map(int, outer), start + at), int(ref[at]), int(cand[at])
            count += int(np.count_nonzero(differs))
    if first is None:
        return IdsAgreement(0, common, length, their_length)
    index, ours_id, theirs_id = first
    decoded = (vocab.decode(ours_id), vocab.decode(theirs_id)) if vocab else (None, None)
    return IdsAgreement(count, common, length, their_length, index, ours_id, theirs_id, *decoded)
