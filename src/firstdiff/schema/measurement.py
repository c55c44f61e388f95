"""A measured pair: its tensors, their pairing and alignment, metrics and tolerance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Statistics:
    """One side's values. NaN and Inf are counted and left out of the rest; None where no finite value is left."""

    mean: float | None
    std: float | None
    min: float | None
    max: float | None
    nan: int
    inf: int


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One side of a row; `keys` are the tensors it is made of, and `name` shows them as one text."""

    name: str
    shape: tuple[int, ...] | None
    dtype: str | None
    statistics: Statistics | None = None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pairing:
    """The method and confidence by which two tensors were paired; `alternatives` are keys of other candidates."""

    method: str
    confidence: float
    alternatives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Alignment:
    """The layout a pair was compared in; `coverage` is that of the side of which less was compared.

    applied: False where the values would fit in this layout, but the figures are those of both sides as they lie
    barred: why values that agree in this layout are no match; None where they are one
    """

    recipe: str
    steps: tuple[str, ...] = ()
    coverage: float = 1.0
    confidence: float = 1.0
    alternatives: tuple[str, ...] = ()
    reference_coverage: float = 1.0
    candidate_coverage: float = 1.0
    notes: tuple[str, ...] = ()
    applied: bool = True
    barred: str | None = None

    @property
    def is_identity(self) -> bool:
        """True if both sides are compared as they are."""
        return self.recipe == "identity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The difference of a pair, over the elements that are finite on both sides; the others are counted apart.

    Relative metrics leave out elements whose reference is 0 (`zero_reference` of them). `mismatched` counts
    elements outside the tolerance, non-finite ones included. `sampled` names metrics taken from a fixed sample.
    """

    elements: int
    mismatched: int
    max_abs: float | None
    mean_abs: float | None
    max_rel: float | None
    mean_rel: float | None
    zero_reference: int
    mse: float | None
    rmse: float | None
    rel_l2: float | None
    cosine: float | None
    one_minus_cosine: float | None
    nmse: float | None
    sqnr_db: float | None
    max_ulp: float | None
    abs_percentiles: Mapping[str, float] = field(default_factory=dict)
    argmax: tuple[int, ...] | None = None
    reference_at_max: Any = None
    candidate_at_max: Any = None
    nan_reference: int = 0
    nan_candidate: int = 0
    inf_reference: int = 0
    inf_candidate: int = 0
    sampled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """The tolerance of a single element: `k * eps * (scale + |r|)` for the rules `default` and `eps`, for the others
    `atol + rtol * |r|`. Rule `default` also tests the form of the difference: see `Systematic`.
    """

    rule: str
    k: float | None = None
    scale: float | None = None
    atol: float
    rtol: float
    floor: float | None = None
    source: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingBasis:
    """The figures from which other tolerances can be judged without the data.

    elements .. sampled: the fields of `measure.Envelope`
    both_nan, conflicting: elements that are NaN on both sides; NaN or Inf that the other side does not share
    types: the dtypes that decide the default tolerance; `scale` is the reference's deviation
    exact: what the values are, where the default compares them exactly
    """

    elements: int
    max_abs: float
    max_rel: float
    at_zero: float
    corners: tuple[tuple[float, float], ...]
    slack: float
    cells: tuple[tuple[int | None, int, int], ...]
    sampled: int
    both_nan: int = 0
    conflicting: int = 0
    types: tuple[str, str] = ("float32", "float32")
    scale: float = 0.0
    exact: str | None = None


@dataclass(frozen=True, slots=True)
class Required:
    """The atol alone, or the rtol alone, that would have let the pair match; None where none would."""

    atol: float | None
    rtol: float | None
