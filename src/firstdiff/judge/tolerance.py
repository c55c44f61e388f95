"""The tolerance of one pair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from firstdiff import dtypes
from firstdiff.judge.rules import NamedRule, Rules
from firstdiff.measure.spread import MULTIPLES
from firstdiff.schema import Tolerance

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
) -> Tolerance:
    """What is allowed for a pair.

    key: the reference tensor's key, which named rules match
    scale: the deviation of the reference, which scales the default
    floor: the recorded floor of the reference, if it has one
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
    return _default(default_factor(reference, candidate), reference, candidate, scale, "default")


def default_factor(reference: np.dtype, candidate: np.dtype) -> float:
    """K of the default rule, by the coarser side."""
    coarser = max(reference, candidate, key=dtypes.eps_of)
    if dtypes.eps_of(coarser) == 0 or coarser.name == "float8_e8m0fnu":
        return 0.0
    if coarser.itemsize == 1:
        return _FACTOR_FP8
    return _FACTOR_HALF if coarser.itemsize == 2 else _FACTOR_WIDE


def _default(factor: float, reference: np.dtype, candidate: np.dtype, scale: float, source: str) -> Tolerance:
    eps = max(dtypes.eps_of(reference), dtypes.eps_of(candidate))
    if eps == 0 or factor == 0:
        return Tolerance(rule="exact", atol=0.0, rtol=0.0, source=source)
    share = factor * eps
    return Tolerance(rule="default", k=factor, scale=scale, atol=share * scale, rtol=share, source=source)


def _floor(floor: Mapping[str, Any]) -> Tolerance:
    """A multiple of what healthy runs differ by; a candidate of a coarser type has another floor, so not for that."""
    spread, factor = float(floor.get("max_abs", 0.0)), MULTIPLES["max_abs"]
    return Tolerance(rule="floor", k=factor, atol=factor * spread, rtol=0.0, floor=spread, source="recorded floor")


def _named(rule: NamedRule, reference: np.dtype, candidate: np.dtype, scale: float) -> Tolerance:
    if rule.k is not None:
        return _default(rule.k, reference, candidate, scale, rule.where)
    return Tolerance(rule="stated", atol=rule.atol or 0.0, rtol=rule.rtol or 0.0, source=rule.where)


def _torch(reference: np.dtype, candidate: np.dtype) -> Tolerance:
    limits = [_TORCH.get(dtype.name, (0.0, 0.0)) for dtype in (reference, candidate)]
    rtol, atol = (max(column) for column in zip(*limits, strict=True))
    return Tolerance(rule="torch", atol=atol, rtol=rtol, source="torch's table")
