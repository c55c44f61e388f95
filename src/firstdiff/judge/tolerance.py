"""The tolerance of a pair, from the coarsest dtype it was computed in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, final

import numpy as np

from firstdiff import dtypes
from firstdiff.judge.rules import NamedRule, Rules
from firstdiff.measure.noise_floor import MULTIPLES
from firstdiff.schema import Tolerance
from firstdiff.trace import Record, Tensor

_NOT_COMPUTED = ("param", "buffer")

# Healthy kernel-order noise reaches 62 eps in float32 and 15 in bf16, over models of 12 and 32 layers
_FACTOR_WIDE = 256.0
_FACTOR_HALF = 24.0
# an fp8 eps is 1/8 or 1/4 already: more than twice that would let anything match
_FACTOR_FP8 = 2.0

# torch.testing.assert_close: rtol, atol
_TORCH = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


def tolerance_for(
    rules: Rules,
    key: str,
    reference: np.dtype,
    candidate: np.dtype,
    scale: float,
    floor: Mapping[str, Any] | None = None,
    exact: str | None = None,
) -> Tolerance:
    """Return what is allowed of the elements of a pair.

    key: the reference tensor's key, which named rules match
    scale: the deviation of the reference, which scales the default
    floor: the recorded floor of the reference, if it has one
    exact: what its values are, if the default compares them exactly
    """
    rule = rules.named_rule(key)
    if rule is not None:
        return _named(rule, reference, candidate, scale)
    if rules.atol is not None or rules.rtol is not None:
        return Tolerance(rule="stated", atol=rules.atol or 0.0, rtol=rules.rtol or 0.0, source="--atol/--rtol")
    if rules.table == "torch":
        return _torch(reference, candidate)
    if floor is not None and dtypes.eps_of(candidate) <= dtypes.eps_of(reference):
        return _floor(floor)
    if exact is not None:
        return Tolerance(rule="exact", atol=0.0, rtol=0.0, source=exact)
    return _of_eps("default", default_factor(reference, candidate), reference, candidate, scale, "default")


def default_factor(reference: np.dtype, candidate: np.dtype) -> float:
    """Return how many eps of a single element count as rounding, by the coarser side."""
    coarser = max(reference, candidate, key=dtypes.eps_of)
    if dtypes.eps_of(coarser) == 0 or dtypes.name_of(coarser) == "float8_e8m0fnu":
        return 0.0
    if coarser.itemsize == 1:
        return _FACTOR_FP8
    return _FACTOR_HALF if coarser.itemsize == 2 else _FACTOR_WIDE


def _of_eps(rule: str, factor: float, reference: np.dtype, candidate: np.dtype, scale: float, source: str) -> Tolerance:
    eps = max(dtypes.eps_of(reference), dtypes.eps_of(candidate))
    if eps == 0 or factor == 0:
        return Tolerance(rule="exact", atol=0.0, rtol=0.0, source=source)
    share = factor * eps
    return Tolerance(rule=rule, k=factor, scale=scale, atol=share * scale, rtol=share, source=source)


def _floor(floor: Mapping[str, Any]) -> Tolerance:
    """A multiple of what healthy runs differ by; a candidate of a coarser type has another floor, so not for that."""
    spread, factor = float(floor.get("max_abs", 0.0)), MULTIPLES["max_abs"]
    return Tolerance(rule="floor", k=factor, atol=factor * spread, rtol=0.0, floor=spread, source="recorded floor")


def _named(rule: NamedRule, reference: np.dtype, candidate: np.dtype, scale: float) -> Tolerance:
    if rule.k is not None:
        return _of_eps("eps", rule.k, reference, candidate, scale, rule.where)
    return Tolerance(rule="stated", atol=rule.atol or 0.0, rtol=rule.rtol or 0.0, source=rule.where)


def _torch(reference: np.dtype, candidate: np.dtype) -> Tolerance:
    limits = [_TORCH.get(dtypes.name_of(dtype), (0.0, 0.0)) for dtype in (reference, candidate)]
    rtol, atol = (max(column) for column in zip(*limits, strict=True))
    return Tolerance(rule="torch", atol=atol, rtol=rtol, source="torch's table")


def coarsest_ancestors(tensors: Sequence[Tensor]) -> list[np.dtype | None]:
    """Return, for each tensor of a trace, the coarsest floating-point type among itself and what fed it.

    A float32 softmax inside a bfloat16 model has bfloat16's noise.

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
