"""Hypotheses: values were rounded to a narrower dtype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific
from firstdiff.diagnose.values.grids import share_on_grid, spacing_at, steps_of
from firstdiff.diagnose.values.sides import Sides

_ALL = 0.999
_FEW = 0.9
_COMPUTED = 24.0
_LEAST = 64
_UNRELATED = 0.15
_LOOKS_LIKE = 0.45


class _Rounded(Hypothesis):
    """The grid, or the noise, of one shorter floating type."""

    dtype: ClassVar[str]
    has_noise: ClassVar[bool] = True
    finer: ClassVar[tuple[str, ...]] = ()

    def applies(self, case: Case) -> bool:
        own = dtypes.eps_of(dtypes.from_name(self.dtype))
        judged = case.row.systematic
        if judged is not None and judged.failed and dtypes.eps_of(dtypes.from_name(judged.dtype)) >= own:
            return False  # the verdict allows for the rounding of this type already
        return case.comparable and Sides.of(case).real and 0 < dtypes.eps_of(_reference_type(case)) < own

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        if case.candidate_dtype.name == self.dtype or self._on_grid(sides):
            yield from self._cast(sides)
        elif self.has_noise and dtypes.eps_of(case.candidate_dtype) < dtypes.eps_of(dtypes.from_name(self.dtype)):
            yield from self._computed(sides)

    def _on_grid(self, sides: Sides) -> bool:
        """On this type's grid, on none that is coarser, and the reference is not."""
        if share_on_grid(sides.candidate, self.dtype) < _ALL or share_on_grid(sides.case.reference, self.dtype) > _FEW:
            return False
        return not any(share_on_grid(sides.candidate, coarser) >= _ALL for coarser in self.finer)

    def _cast(self, sides: Sides) -> Iterator[Explanation]:
        half = 0.505 * spacing_at(sides.candidate, self.dtype) + sides.allowed
        apart = np.abs(sides.difference)
        if np.mean(apart[sides.finite] <= half[sides.finite]) >= _ALL:
            limit, how = half, f"each value is the nearest {self.dtype} to what it should be"
        else:
            limit, how = _noise(sides, self.dtype), f"the values are {self.dtype} numbers, with its noise"
        yield from sides.told(
            self.code,
            np.where(apart <= limit, sides.candidate, sides.reference),
            how,
            f"keep these values in {_reference_type(sides.case).name}, or record a floor in {self.dtype}",
        )

    def _computed(self, sides: Sides) -> Iterator[Explanation]:
        """Not on the grid, but apart by noise of its size and of no direction: computed in it further up."""
        eps = dtypes.eps_of(dtypes.from_name(self.dtype))
        told = sides.finite
        if int(told.sum()) < _LEAST or not _has_no_direction(sides):
            return
        spread = float(sides.reference[told].std())
        size = float(np.sqrt(np.mean((np.abs(sides.difference[told]) / (spread + np.abs(sides.reference[told]))) ** 2)))
        if not 0.05 * eps < size < 2.0 * eps:
            return
        limit = _noise(sides, self.dtype)
        yield from sides.told(
            self.code,
            np.where(np.abs(sides.difference) <= limit, sides.candidate, sides.reference),
            f"the difference has no direction and the size of {self.dtype}'s noise ({size / eps:.2g} of its steps)",
            f"compute this in {_reference_type(sides.case).name}: weights, inputs or products are kept in {self.dtype}",
            specific=Specific.SYMPTOM,
            doubt=_LOOKS_LIKE,
        )


class DtypeBf16(_Rounded):
    """Values were rounded to bfloat16, or computed in it.

    A cast, an autocast region, weights kept in bfloat16: values lie on its grid of 8 binary digits, or have its noise,
    about 0.4 % of each value.

    Tested by that grid and by the distance to it. Keep them in the reference's type.
    """

    code = "dtype.bf16"
    dtype = "bfloat16"
    finer = ("float8_e4m3fn", "float8_e5m2")


class DtypeFp16(_Rounded):
    """Values were rounded to float16, or computed in it.

    A cast or an autocast region: values lie on its grid of 11 binary digits, or have its noise, about 0.05 % of each.

    Tested by that grid and by the distance to it. Keep them in the reference's type.
    """

    code = "dtype.fp16"
    dtype = "float16"
    finer = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


class DtypeFp8(_Rounded):
    """Values were rounded to an 8-bit float.

    They lie on its grid of 4 binary digits: 16 values between 1 and 2.

    Tested by that grid and by the distance to it. Keep them in the reference's type.
    """

    code = "dtype.fp8"
    dtype = "float8_e4m3fn"
    has_noise = False


class DtypeInt8(Hypothesis):
    """Values were quantised to a few even steps.

    An int8 or int4 grid, one for the tensor or one for each channel: whole multiples of one step.

    Tested by the step that the greatest value tells, of which all values must be multiples. Keep these values
    unquantised, or quantise the reference too.
    """

    code = "dtype.int8"

    def applies(self, case: Case) -> bool:
        return case.comparable and Sides.of(case).real and dtypes.kind_of(case.candidate_dtype) == "float"

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        steps = steps_of(sides.candidate)
        if steps is None or steps_of(sides.reference) is not None:
            return
        apart = np.abs(sides.difference)
        per = "" if steps.axis is None else f", one for each index of axis {steps.axis}"
        yield from sides.told(
            self.code,
            np.where(apart <= 0.51 * steps.size + sides.allowed, sides.candidate, sides.reference),
            f"all values are multiples of one {steps.name} step ({float(steps.size.max()):.4g}{per})",
            "keep these values unquantised, or quantise the reference too",
            assumed=int(steps.size.size),
            implies=("values.clipped",),
        )


def _reference_type(case: Case) -> np.dtype:
    assert case.row.sources, "only what is comparable has values in one layout"
    return case.row.sources[0].dtype


def _noise(sides: Sides, dtype: str) -> np.ndarray:
    """Return the error per element that computing in a dtype may leave."""
    spread = float(sides.reference[sides.finite].std()) if sides.finite.any() else 0.0
    return np.asarray(_COMPUTED * dtypes.eps_of(dtypes.from_name(dtype)) * (spread + np.abs(sides.reference)))


def _has_no_direction(sides: Sides) -> bool:
    """True if the difference looks like noise: no mean, no correlation with the values, even over every axis."""
    told = sides.finite
    apart, values = sides.difference[told], sides.reference[told]
    size = float(np.sqrt(np.mean(apart**2)))
    if not size or not values.std() or int(sides.wrong.sum()) < 0.02 * apart.size:
        return False
    if abs(float(apart.mean())) > _UNRELATED * size:
        return False
    if abs(float(np.mean(apart * (values - values.mean())))) > _UNRELATED * size * float(values.std()):
        return False
    return all(_even(sides, axis, size) for axis in range(sides.ndim) if sides.shape[axis] > 1)


def _even(sides: Sides, axis: int, size: float) -> bool:
    others = tuple(other for other in range(sides.ndim) if other != axis)
    apart = np.where(sides.finite, sides.difference, 0.0)
    each = sides.reference.size / sides.shape[axis]
    means = np.abs(apart.mean(axis=others))
    return each < 8 or float(np.sqrt(np.mean(means**2))) < (_UNRELATED + 2.0 / each**0.5) * size


BF16: Final = DtypeBf16()
FP16: Final = DtypeFp16()
FP8: Final = DtypeFp8()
INT8: Final = DtypeInt8()
