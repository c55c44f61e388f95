"""Hypotheses: values rounded to a narrower dtype or a coarser grid, or that differ by rounding alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific
from firstdiff.diagnose.values.sides import Sides
from firstdiff.ops.arrays import rounded

_SAMPLE = 4096
_FEWEST_ON_GRID = 16
_LEVELS = {"int8": 127, "int4": 7}
_NEAR_STEP = 5e-3


def share_on_grid(values: np.ndarray, dtype: str) -> float:
    """Return the fraction of non-zero values that a dtype holds exactly; 0 where there are too few."""
    told = _sampled(values)
    told = told[told != 0]
    if told.size < _FEWEST_ON_GRID or np.unique(told).size < _FEWEST_ON_GRID // 2:
        return 0.0
    return float(np.mean(rounded(told, dtype) == told))


def spacing_at(values: np.ndarray, dtype: str) -> np.ndarray:
    """Return the spacing of a dtype at each value."""
    with np.errstate(all="ignore"):
        power = np.exp2(np.floor(np.log2(np.where(values != 0, np.abs(values), 1.0))))
    return np.asarray(np.where(values != 0, power, 0.0) * dtypes.eps_of(dtypes.from_name(dtype)))


@dataclass(frozen=True, slots=True)
class Steps:
    """Even steps that all values lie on; `axis` where each index of it has its own."""

    name: str
    size: np.ndarray
    axis: int | None


def steps_of(values: np.ndarray) -> Steps | None:
    """Find the even grid of 8 or 4 bits that real values lie on; None if there is none."""
    for name, top in _LEVELS.items():
        size = _even_step(_sampled(values)[None, :], top)
        if size is not None:
            return Steps(name, size.reshape((1,) * values.ndim), None)
    for axis in reversed(range(values.ndim)):
        if values.shape[axis] < 2 or values.size // values.shape[axis] < _FEWEST_ON_GRID:
            continue
        rows = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)[:, :_SAMPLE]
        for name, top in _LEVELS.items():
            size = _even_step(rows, top)
            if size is not None:
                shape = [1] * values.ndim
                shape[axis] = size.size
                return Steps(name, size.reshape(shape), axis)
    return None


@np.errstate(all="ignore")
def _even_step(rows: np.ndarray, top: int) -> np.ndarray | None:
    """Return the step of each row if all rows lie on a grid of `top` steps to a side, or twice that in all."""
    if rows.shape[1] < _FEWEST_ON_GRID or not np.isfinite(rows).all():
        return None
    span = np.ptp(rows, axis=1, keepdims=True)
    for step in (np.abs(rows).max(axis=1, keepdims=True) / top, span / (2 * top + 1), span / (2 * top)):
        counts = rows / np.where(step > 0, step, 1.0)
        even = np.abs(counts - np.round(counts)) <= _NEAR_STEP
        varied = [np.unique(np.round(row)).size > 3 for row in counts[:4]]
        if even.all() and all(varied):
            return np.asarray(step[:, 0])
    return None


def _sampled(values: np.ndarray) -> np.ndarray:
    flat = values[np.isfinite(values)].reshape(-1)
    return np.asarray(flat if flat.size <= _SAMPLE else flat[np.arange(_SAMPLE) * flat.size // _SAMPLE])


_ALL = 0.999
_MOST_OF_REFERENCE = 0.9
_COMPUTED = 24.0
_FEWEST_VALUES = 64
_UNRELATED = 0.15
_LOOKS_LIKE = 0.45
_NOISE_PEAK = (
    30.0  # how far the largest of some thousand roundings stands above their RMS, with room for massive channels
)


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
        return case.comparable and Sides.of(case).real and 0 < dtypes.eps_of(case.reference_dtype) < own

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        if case.candidate_dtype.name == self.dtype or self._on_grid(sides):
            yield from self._cast(sides)
        elif self.has_noise and dtypes.eps_of(case.candidate_dtype) < dtypes.eps_of(dtypes.from_name(self.dtype)):
            yield from self._computed(sides)

    def _on_grid(self, sides: Sides) -> bool:
        """True if the candidate lies on this dtype's grid, on no coarser one, and the reference does not."""
        if (
            share_on_grid(sides.candidate, self.dtype) < _ALL
            or share_on_grid(sides.case.reference, self.dtype) > _MOST_OF_REFERENCE
        ):
            return False
        return not any(share_on_grid(sides.candidate, coarser) >= _ALL for coarser in self.finer)

    def _cast(self, sides: Sides) -> Iterator[Explanation]:
        half = 0.505 * spacing_at(sides.candidate, self.dtype) + sides.allowed
        apart = np.abs(sides.difference)
        if np.mean(apart[sides.finite] <= half[sides.finite]) >= _ALL:
            limit, how = half, f"each value is the nearest {self.dtype} to what it should be"
        else:
            limit, how = _computing_noise(sides, self.dtype), f"the values are {self.dtype} numbers, with its noise"
        yield from sides.told(
            self.code,
            np.where(apart <= limit, sides.candidate, sides.reference),
            how,
            f"keep these values in {sides.case.reference_dtype.name}, or record a floor in {self.dtype}",
        )

    def _computed(self, sides: Sides) -> Iterator[Explanation]:
        """Explain undirected noise of this dtype's size, off its grid: computed in it further up."""
        eps = dtypes.eps_of(dtypes.from_name(self.dtype))
        told = sides.finite
        if int(told.sum()) < _FEWEST_VALUES or not _has_no_direction(sides):
            return
        spread = float(sides.reference[told].std())
        shares = np.abs(sides.difference[told]) / (spread + np.abs(sides.reference[told]))
        size = float(np.sqrt(np.mean(shares**2)))
        if not 0.05 * eps < size < 2.0 * eps or shares.max() > _NOISE_PEAK * size:
            return
        limit = _computing_noise(sides, self.dtype)
        yield from sides.told(
            self.code,
            np.where(np.abs(sides.difference) <= limit, sides.candidate, sides.reference),
            f"the difference is random, and as large as {self.dtype} rounding ({size / eps:.2g} of its steps)",
            f"compute this in {sides.case.reference_dtype.name}: weights, inputs or products are kept in {self.dtype}",
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


def _computing_noise(sides: Sides, dtype: str) -> np.ndarray:
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
    return all(_is_even_along(sides, axis, size) for axis in range(sides.ndim) if sides.shape[axis] > 1)


def _is_even_along(sides: Sides, axis: int, size: float) -> bool:
    others = tuple(other for other in range(sides.ndim) if other != axis)
    apart = np.where(sides.finite, sides.difference, 0.0)
    each = sides.reference.size / sides.shape[axis]
    means = np.abs(apart.mean(axis=others))
    return each < 8 or float(np.sqrt(np.mean(means**2))) < (_UNRELATED + 2.0 / each**0.5) * size


# in steps of the dtype: the error of the last rounding, and that seen of sums in another order
_LAST_BITS, _USUAL = 2.0, 62.0
_SURE, _LIKELY, _OPEN = 0.05, 0.1, 0.5


class Rounding(Hypothesis):
    """The two sides differ by rounding alone.

    Sums in another order, another library's exp or tanh, a fused kernel: each rounds its last bits otherwise. What was
    asked for is stricter than that, as with a tolerance of 0.

    Tested by the size of the difference in steps of the type, and by whether it has a direction: rounding has none, a
    small mistake mostly has. Allow what rounding leaves (the default tolerance does), or compute both sides alike.
    """

    code = "rounding"

    def applies(self, case: Case) -> bool:
        systematic = case.row.systematic
        if systematic is not None and systematic.failed:
            return False  # the verdict allows for rounding already, and found more
        return case.comparable and case.unexplained.reaches_floor and case.unexplained.max_abs > 0

    def test(self, case: Case) -> Iterator[Explanation]:
        fit = case.unexplained
        steps = fit.worst * case.floor.steps
        size = f"the greatest difference, {fit.max_abs:.2g}, is {steps:.2g} steps of {case.dtype.name}"
        if steps <= _LAST_BITS:
            told, doubt = "the last bits of the numbers", _SURE
        elif _has_direction(Sides.of(case)):
            told, doubt = "as little as rounding, yet all one way, as a small mistake would be", _OPEN
        elif steps <= _USUAL:
            told, doubt = f"random; sums in another order leave up to {_USUAL:.0f}", _LIKELY
        else:
            told, doubt = "random, yet more than sums in another order were seen to leave", _OPEN
        yield Explanation(
            cause=self.code,
            fit=fit,
            evidence=f"{size}: {told}",
            fix="allow what rounding leaves, as the default tolerance does, or compute both sides alike",
            specific=Specific.SYMPTOM,
            doubt=doubt,
        )


@np.errstate(all="ignore")
def _has_direction(sides: Sides) -> bool:
    """True if the difference has a mean, or correlates with the values."""
    apart, values = sides.difference[sides.finite], sides.reference[sides.finite]
    size = float(np.sqrt(np.mean(np.abs(apart) ** 2)))
    limit = (_UNRELATED + 3.0 / apart.size**0.5) * size
    spread = float(np.std(values))
    goes_with = np.abs(np.mean(apart * np.conj(values - values.mean()))) / spread if spread else 0.0
    return bool(np.abs(apart.mean()) > limit or goes_with > limit)


BF16: Final = DtypeBf16()
FP16: Final = DtypeFp16()
FP8: Final = DtypeFp8()
INT8: Final = DtypeInt8()
ROUNDING: Final = Rounding()
