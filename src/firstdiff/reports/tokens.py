"""Sentences about token rows: the first id that differs, the agreement of logits."""

from __future__ import annotations

from collections.abc import Iterator

from firstdiff.schema import ArgmaxChange, Comparison, IdsAgreement, LogitsAgreement, Pair

_MOST_ROWS = 3


def token_findings(pair: Pair) -> Iterator[str]:
    """Say what a row tells about tokens; nothing for rows of other values."""
    if pair.ids is not None:
        yield f"Ids: {ids_sentence(pair.ids)}"
    if pair.logits is not None:
        yield f"Logits: {logits_sentence(pair.logits)}"


def token_remarks(comparison: Comparison) -> Iterator[str]:
    """Describe rows of tokens that differ, but for the first divergence, whose answer does."""
    first = comparison.first_divergence.pair if comparison.first_divergence else None
    rows = [pair for pair in comparison.pairs if pair.index != first and (pair.ids or _is_worth_telling(pair.logits))]
    for pair in rows[:_MOST_ROWS]:
        said = ids_sentence(pair.ids) if pair.ids is not None else logits_sentence(pair.logits) if pair.logits else ""
        yield f"{pair.key}: {said}"
    if len(rows) > _MOST_ROWS:
        yield f"… and {len(rows) - _MOST_ROWS:,} more rows of ids or logits"


def _is_worth_telling(logits: LogitsAgreement | None) -> bool:
    return logits is not None and (logits.first_argmax is not None or logits.not_finite > 0)


def ids_sentence(ids: IdsAgreement) -> str:
    """Name the first ids that differ."""
    lengths = ""
    if ids.reference_length != ids.candidate_length:
        lengths = f"{ids.candidate_length:,} in place of {ids.reference_length:,}; "
    if ids.index is None:
        return f"{lengths}the first {ids.compared:,} are the same"
    reference, candidate = (
        f"{number} {token}" if token else str(number)
        for number, token in ((ids.reference, ids.reference_token), (ids.candidate, ids.candidate_token))
    )
    return f"{lengths}{ids.different:,} differ, first at {list(ids.index)}: {candidate} in place of {reference}"


def logits_sentence(logits: LogitsAgreement) -> str:
    """Say how far logits agree, and whether another best token is a near tie or real."""
    parts = []
    if logits.same_argmax is not None and logits.shared_top_k is not None:
        parts.append(
            f"the same best token at {logits.same_argmax:.4%} of {logits.looked_at - logits.not_finite:,} positions, "
            f"{logits.shared_top_k:.3%} of the top {logits.top_k} shared, KL {logits.mean_kl:.3g} on average, "
            f"{logits.max_kl:.3g} at most"
        )
    if logits.not_finite:
        one = logits.not_finite == 1
        parts.append(
            f"{logits.not_finite:,} position{'' if one else 's'} with NaN or Inf {'was' if one else 'were'} left out"
        )
    if logits.looked_at < logits.positions:
        parts.append(f"only the first {logits.looked_at:,} of {logits.positions:,} positions were looked at")
    if logits.first_argmax is not None:
        parts.append(_change(logits.first_argmax))
    return "; ".join(parts)


def _change(change: ArgmaxChange) -> str:
    reference, candidate = (
        f"{number} {token}" if token else str(number)
        for number, token in ((change.reference, change.reference_token), (change.candidate, change.candidate_token))
    )
    kind = "a near tie" if change.near_tie else "a real change"
    side = "within" if change.near_tie else "beyond"
    return (
        f"first other best token at {list(change.index)}: {candidate} in place of {reference}, {kind} "
        f"(a gap of {change.gap:.3g}, {side} the noise of {change.noise:.3g})"
    )
