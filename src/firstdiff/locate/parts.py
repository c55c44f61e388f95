"""Find the part of a fused tensor that differs: a projection of q, k and v may be wrong in v alone."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from firstdiff.errors import ReadError
from firstdiff.locate.row import MeasuredPair

_DIFFERS = 1e-4  # of a part's largest value
_MOST_VALUES = 1 << 22


def wrong_parts(row: MeasuredPair) -> list[int]:
    """Return the numbers of the parts whose values the fused tensor does not hold in their place, in any order."""
    whole = row.candidate.source if row.candidate else None
    sources = [part.source for part in row.parts]
    if not sources or whole is None or not whole.shape or whole.size > _MOST_VALUES:
        return []
    known = [source for source in sources if source is not None and source.shape]
    if len(known) < len(sources) or sum(source.shape[-1] for source in known) != whole.shape[-1]:
        return []
    try:
        values = whole.read().astype(np.float64)
        stops = list(accumulate(source.shape[-1] for source in known))
        pieces = np.split(values, stops[:-1], axis=-1)
        return [
            number
            for number, (source, piece) in enumerate(zip(known, pieces, strict=True))
            if _differ(source.read().astype(np.float64), piece)
        ]
    except (ReadError, TypeError, ValueError):
        return []


def _differ(part: np.ndarray, piece: np.ndarray) -> bool:
    if part.size != piece.size:
        return True
    mine, yours = np.sort(part, axis=None), np.sort(piece, axis=None)
    scale = float(np.abs(mine).max(initial=0.0))
    return not bool(np.abs(mine - yours).max(initial=0.0) <= _DIFFERS * scale)
