"""Hypotheses on NaN and infinities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific
from firstdiff.diagnose.values.precision import share_on_grid
from firstdiff.diagnose.values.sides import Sides, axis_words

_RANGES = {"float16": 65504.0, "bfloat16": 3.39e38, "float32": 3.4e38}
_NEAR = 1 / 64
_SEVERAL = 3


@dataclass(frozen=True, slots=True, eq=False)
class _Strange:
    """The elements where the candidate is not finite and the reference is different."""

    sides: Sides
    at: np.ndarray
    nan: int
    inf: int

    @staticmethod
    def of(case: Case) -> _Strange | None:
        sides = Sides.of(case)
        reference, candidate = sides.reference, sides.candidate
        at = ~np.isfinite(candidate) & ~((reference == candidate) | (np.isnan(reference) & np.isnan(candidate)))
        if not at.any():
            return None
        return _Strange(sides, at, int(np.isnan(candidate[at]).sum()), int(np.isinf(candidate[at]).sum()))

    @property
    def counts(self) -> str:
        parts = [f"{count:,} {name}" for count, name in ((self.nan, "NaN"), (self.inf, "Inf")) if count]
        return " and ".join(parts)

    def told(
        self,
        cause: str,
        evidence: str,
        fix: str,
        specific: Specific,
        implies: tuple[str, ...] = (),
        slack: float = 0.0,
    ) -> Explanation:
        """Build an explanation that takes the non-finite elements as they are; the others must equal the reference.

        slack: what the noise may be, as a share of each value
        """
        reference, candidate = self.sides.reference, self.sides.candidate
        with np.errstate(all="ignore"):
            near = np.abs(candidate - reference) <= slack * np.abs(reference)
        predicted = np.where(self.at | near, candidate, reference)
        return Explanation(
            cause=cause,
            fit=self.sides.case.fit(predicted),
            evidence=evidence,
            fix=fix,
            assumed=1,
            specific=specific,
            implies=implies,
            predicted=predicted,
        )


class ValuesNonfinite(Hypothesis):
    """The candidate has NaN or Inf where the reference has numbers.

    A range that is too small, the logarithm or the root of what must not be negative, a division by zero, the softmax
    of a row that is masked everywhere, memory that was never filled.

    Tested by what is finite: is it right? The first such element and what led there are told beside the diagnosis.
    """

    code = "values.nonfinite"

    def test(self, case: Case) -> Iterator[Explanation]:
        found = _Strange.of(case)
        if found is None:
            return
        evidence = f"the candidate has {found.counts} where the reference has numbers{_rows(found)}"
        fix = "find the first: a range too small, a logarithm or division of 0, a row masked everywhere"
        yield found.told(self.code, evidence, fix, Specific.SYMPTOM)


class Overflow(Hypothesis):
    """Numbers are beyond the range of a type.

    float16 ends at 65504: products, squares and sums of activations pass that, become Inf, and Inf - Inf is NaN.

    Tested by what the reference has where the candidate is not finite, and by how near to the range the rest comes.
    Compute this in float32 or bfloat16.
    """

    code = "overflow"

    def test(self, case: Case) -> Iterator[Explanation]:
        found = _Strange.of(case)
        if found is None or not found.sides.real:
            return
        name = _narrowest(case, found)
        top = _RANGES[name]
        reference = np.abs(found.sides.reference[found.at])
        reference = reference[np.isfinite(reference)]
        inputs = max((_largest(both.candidate) for both in case.inputs.values()), default=0.0)
        if reference.size and float(np.median(reference)) > top * (1 - 2**-10):
            evidence = f"the reference reaches {reference.max():.5g} there, beyond the {top:.5g} that {name} holds"
        elif found.inf and float(reference.max(initial=0.0)) > top * _NEAR:
            evidence = f"the reference reaches {reference.max():.5g}, near the {top:.5g} that {name} holds"
        elif inputs > top * _NEAR or inputs**2 > top:
            evidence = f"its inputs reach {inputs:.5g}: their products are beyond the {top:.5g} that {name} holds"
        elif _ends_a_range(found, np.abs(found.sides.reference)):
            evidence = f"all values beyond {reference.min():.5g} are Inf and no others, as where a range ends"
        else:
            return
        fix = "compute this in float32, or in bfloat16, whose range is that of float32"
        implies = ("values.nonfinite", "dtype.fp16", "dtype.bf16", "values.clipped")
        yield found.told(self.code, evidence, fix, Specific.MISTAKE, implies, dtypes.eps_of(dtypes.from_name(name)))


def _ends_a_range(found: _Strange, sizes: np.ndarray) -> bool:
    """True if the largest expected values became infinite: several of different sizes, so no mask fill."""
    beyond, within = sizes[found.at], sizes[~found.at]
    there = not found.nan and within.size > 0 and np.unique(beyond).size >= _SEVERAL
    return bool(there and beyond.min() >= within.max() * (1 - 2**-9))


def _narrowest(case: Case, found: _Strange) -> str:
    """Name the dtype that the candidate seems to have computed in."""
    if case.candidate_dtype.name in _RANGES and case.candidate_dtype.name != "float32":
        return case.candidate_dtype.name
    finite = found.sides.candidate[np.isfinite(found.sides.candidate)]
    top = float(np.abs(finite).max(initial=0.0))
    half = share_on_grid(finite, "float16") > 0.999 or (
        top <= _RANGES["float16"] and not share_on_grid(finite, "float16")
    )
    return "float16" if half else "float32"


@np.errstate(all="ignore")
def _largest(values: np.ndarray | None) -> float:
    if values is None or values.dtype.kind not in "fV" or not values.size:
        return 0.0
    sizes = np.abs(np.asarray(values, np.float64))
    return float(sizes[np.isfinite(sizes)].max(initial=0.0))


def _rows(found: _Strange) -> str:
    """Describe non-finite vectors along an axis, as a softmax or norm makes of one bad element."""
    for axis in reversed(range(found.at.ndim)):
        if found.at.shape[axis] > 1 and found.at.any() and not found.at.all():
            every = found.at.all(axis=axis)
            if np.array_equal(found.at.any(axis=axis), every):
                return f", whole vectors along {axis_words(axis, found.at.ndim)}"
    return ""


NONFINITE: Final = ValuesNonfinite()
OVERFLOW: Final = Overflow()
