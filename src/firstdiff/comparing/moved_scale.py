"""Recognise a constant factor that the candidate applies earlier than the reference, such as to queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isfinite
from typing import final

import numpy as np

from firstdiff.comparing.rewritten import without_figures
from firstdiff.errors import ReadError
from firstdiff.locate import MeasuredPair
from firstdiff.trace import Key, Record, Trace

_MOST_VALUES = 1 << 16  # that are looked at
_SAME_FACTOR = 1e-4
_FARTHEST = 24  # tensors between a value and the factor
_TIMES, _BY, _ATTENTION = "mul", "div", "scaled_dot_product_attention"
# what a constant factor goes through
_LINEAR = frozenset(
    "matmul bmm einsum mul div add sub neg cat stack chunk split getitem reshape view transpose permute squeeze "
    "unsqueeze expand contiguous flatten unflatten repeat repeat_interleave roll to float clone".split()
)


def set_apart_moved_scales(reference: Trace, rows: Sequence[MeasuredPair]) -> list[MeasuredPair]:
    """Give the status `rewritten` to rows that differ by a factor which the reference applies only later.

    A tensor that was made with the factor must have been compared: whether it was applied once shows there.
    """
    if not any(row.differs for row in rows):
        return list(rows)
    later = _Later(reference, rows)
    return [_set_apart(row, later) if row.differs and row.role == "output" else row for row in rows]


def _set_apart(row: MeasuredPair, later: _Later) -> MeasuredPair:
    record = row.record
    if record is None or record.seq is None or row.sources is None or not later.has_factors:
        return row
    factor = _factor(row)
    if factor is None:
        return row
    for applied, name in later.factors(record):
        if abs(applied / factor - 1) <= _SAME_FACTOR:
            reason = f"the candidate multiplies by {factor:.6g} here, the reference later, in {name}"
            return without_figures(row, reason)
    return row


def _factor(row: MeasuredPair) -> float | None:
    """Return the number that the reference's values are multiplied by; None where one number does not explain them."""
    assert row.sources is not None, "it was measured"
    count = min(row.sources[0].size, _MOST_VALUES)
    try:
        sides = [np.asarray(source.window(0, count)) for source in row.sources]
    except ReadError:
        return None
    if any(side.dtype.kind in "biuc" for side in sides):
        return None
    reference, candidate = (side.astype(np.float64).ravel() for side in sides)
    if not (np.isfinite(reference).all() and np.isfinite(candidate).all()):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        size = float(reference @ reference)
        factor = float(reference @ candidate) / size if size else 0.0
    if not isfinite(size) or not isfinite(factor) or factor == 0:
        return None
    allowed = _SAME_FACTOR if row.tolerance is None else max(row.tolerance.rtol, _SAME_FACTOR)
    left = float(np.abs(candidate - factor * reference).max())
    return factor if left <= allowed * float(np.abs(candidate).max()) else None


@final
class _Later:
    """The constant factors that the reference applies to what it makes of a tensor."""

    def __init__(self, reference: Trace, rows: Sequence[MeasuredPair]) -> None:
        self._records = [tensor.record for tensor in reference]
        self._users: dict[tuple[int, int], list[int]] = {}
        for place, record in enumerate(self._records):
            for seq in record.sources:
                self._users.setdefault((record.rank, seq), []).append(place)
        self._outputs: dict[Key, list[int]] = {}
        self._results: dict[str, list[int]] = {}
        for place, record in enumerate(self._records):
            if record.key.role == "output":
                self._outputs.setdefault(replace(record.key, slot="0"), []).append(place)
                if not record.is_function:
                    self._results.setdefault(record.name, []).append(place)
        self._compared = {(row.rank, row.record.seq) for row in rows if row.compared and row.record is not None}
        self._widths = [tensor.source.shape[-1:] if tensor.source else () for tensor in reference]
        self.has_factors = any(record.op in (_TIMES, _BY, _ATTENTION) for record in self._records)

    def factors(self, record: Record) -> Iterator[tuple[float, str]]:
        """Yield each factor that reaches a compared tensor, and where it is applied."""
        for place in self._uses(record, _LINEAR | {_ATTENTION}):
            applied = self._applied(place)
            if applied is not None and self._is_compared_after(self._records[place]):
                yield applied, str(self._records[place].key)

    def _uses(self, record: Record, ops: frozenset[str]) -> Iterator[int]:
        """Yield what functions make of a tensor, the nearest first."""
        waiting, seen = [record], set[int]()
        while waiting and len(seen) < _FARTHEST:
            at = waiting.pop(0)
            for place in () if at.seq is None else self._users.get((at.rank, at.seq), ()):
                user = self._records[place]
                if place not in seen and user.op in ops:
                    seen.add(place)
                    yield place
                    waiting.append(user)

    def _applied(self, place: int) -> float | None:
        record = self._records[place]
        if record.op == _ATTENTION and record.key.role == "output":
            scale = record.attrs.get("scale")
            width = self._widths[place]
            return float(scale) if scale else width[0] ** -0.5 if width and width[0] else None
        number = record.attrs.get("other", record.attrs.get("input"))
        if record.op not in (_TIMES, _BY) or isinstance(number, bool) or not isinstance(number, int | float):
            return None
        if number == 0 or not isfinite(number):
            return None
        return float(number) if record.op == _TIMES else 1.0 / number

    def _results_around(self, record: Record) -> list[int]:
        """Return what the module gives back in whose code a tensor was made."""
        parent = record.parent or "root"
        later = (
            place for place in self._results.get(parent, ()) if (self._records[place].seq or 0) > (record.seq or 0)
        )
        found = next(later, None)
        return [] if found is None else [found]

    def _is_compared_after(self, record: Record) -> bool:
        """True if the tensor or something that is soon made of it has a partner."""
        waiting, seen = [record], 0
        while waiting and seen < _FARTHEST:
            at = waiting.pop(0)
            seen += 1
            if (at.rank, at.seq) in self._compared:
                return True
            made = [] if at.seq is None else list(self._users.get((at.rank, at.seq), ()))
            if at.key.role == "input":
                made += self._outputs.get(replace(at.key, role="output", slot="0"), [])
            made += self._results_around(at)
            waiting += [self._records[place] for place in made]
        return False
