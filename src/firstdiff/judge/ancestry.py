"""The coarsest type that a tensor was computed in: a float32 softmax inside a bfloat16 model has bfloat16's noise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import final

import numpy as np

from firstdiff import dtypes
from firstdiff.trace import Record, Tensor

_NOT_COMPUTED = ("param", "buffer")


def coarsest_ancestors(tensors: Sequence[Tensor]) -> list[np.dtype | None]:
    """For each tensor of a trace, in order, the coarsest floating-point type among itself and what fed it.

    What fed it is in `from`; where that is not recorded, what its call was given, or the call around it. None where
    it is no floating-point tensor. Weights, and what the model was given, are the same on both sides: whatever their
    type, they bring no noise. Types of one byte are stored, not computed in.
    """
    ancestry = _Ancestry()
    return [ancestry.next(tensor) for tensor in tensors]


@final
class _Ancestry:
    def __init__(self) -> None:
        self._by_seq: dict[tuple[int, int], np.dtype | None] = {}
        self._given: dict[tuple[str, int, int], np.dtype | None] = {}

    def next(self, tensor: Tensor) -> np.dtype | None:
        record, own = tensor.record, _float_of(tensor)
        if own is None or record.role in _NOT_COMPUTED:
            return own
        inherited = _coarsest(self._fed_by(record))
        if record.role == "input" and record.parent is None and not record.sources:
            return own
        coarsest = _coarsest([own, inherited])
        passed_on = coarsest if coarsest is not None and coarsest.itemsize > 1 else inherited
        if record.seq is not None:
            self._by_seq[record.rank, record.seq] = passed_on
        if record.role == "input":
            call = record.name, record.step, record.rank
            self._given[call] = _coarsest([self._given.get(call), passed_on])
        return coarsest

    def _fed_by(self, record: Record) -> list[np.dtype | None]:
        if record.sources:
            return [self._by_seq.get((record.rank, seq)) for seq in record.sources]
        own = self._given.get((record.name, record.step, record.rank)) if record.role != "input" else None
        if own is not None or record.parent is None:
            return [own]
        return [self._given.get((record.parent, record.step, record.rank))]


def _float_of(tensor: Tensor) -> np.dtype | None:
    dtype = tensor.source.dtype if tensor.source is not None else None
    return dtype if dtype is not None and dtypes.kind_of(dtype) == "float" else None


def _coarsest(types: Iterable[np.dtype | None]) -> np.dtype | None:
    return max((dtype for dtype in types if dtype is not None), key=dtypes.eps_of, default=None)
