"""Hypotheses: values of an earlier tensor in place of the row's own, or missing from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific
from firstdiff.diagnose.values.sides import Sides

_MOST_TENSORS = 128
_SAMPLE = 256


@dataclass(frozen=True, slots=True, eq=False)
class EarlierValues:
    """A tensor of the shape of the case that the candidate had earlier.

    is_input: the case's operation was given it
    guessed: that is not recorded; it is the tensor right before
    """

    key: str
    name: str
    candidate: np.ndarray
    reference: np.ndarray
    is_input: bool
    guessed: bool


def earlier_values(case: Case) -> tuple[EarlierValues, ...]:
    """Return the earlier tensors of a case, the last first."""
    return case.derived(_earlier_values)


def _earlier_values(case: Case) -> tuple[EarlierValues, ...]:
    return tuple(_search_earlier(case))


def _search_earlier(case: Case) -> Iterator[EarlierValues]:
    recorded = {both.key for both in (*case.inputs.values(), *(() if case.sources_guessed else case.sources))}
    inputs = recorded | {both.key for both in case.sources}
    for row in islice(case.nearby.earlier(), _MOST_TENSORS):
        if np.isfinite(row.candidate).all():
            is_input = row.key in inputs
            yield EarlierValues(
                row.key, row.name, row.candidate, row.reference, is_input, is_input and row.key not in recorded
            )


def sampled_indices(size: int) -> np.ndarray:
    """Return evenly spread indices of a flat tensor."""
    return np.arange(size) if size <= _SAMPLE else np.arange(_SAMPLE) * size // _SAMPLE


_PARALLEL = 0.99
_MULTIPLE = 0.999
_WHOLE = 0.01
_FEWEST_SUMMED = 8


class ResidualMissing(Hypothesis):
    """An earlier tensor is not added, is added twice, or with another weight.

    The skip connection of a block: without it the difference is what went round the block.

    Tested by the part of the difference that each earlier tensor of the same shape accounts for. Add it once.
    """

    code = "residual.missing"

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        if sides.reference.size < _FEWEST_SUMMED or not sides.finite.all():
            return
        flat = sampled_indices(sides.reference.size)
        apart = sides.difference.reshape(-1)[flat]
        length = float(np.linalg.norm(apart))
        for one in earlier_values(case) if length else ():
            values = one.candidate.reshape(-1)[flat]
            size = float(np.linalg.norm(values))
            if (
                not size
                or abs(np.vdot(values, apart)) < _PARALLEL * size * length
                or _only_scales(one.reference, sides)
            ):
                continue
            weight = float((np.vdot(one.candidate, sides.difference) / np.vdot(one.candidate, one.candidate)).real)
            yield from self._told(sides, one.key, one.candidate, weight)

    def _told(self, sides: Sides, key: str, values: np.ndarray, weight: float) -> Iterator[Explanation]:
        if abs(weight + 1) < _WHOLE:
            yield from sides.told(
                self.code,
                sides.reference - values,
                f"{key} is not added",
                f"add {key}",
                implies=("op.skipped", "values.stale"),
            )
        elif abs(weight - 1) < _WHOLE:
            yield from sides.told(
                self.code, sides.reference + values, f"{key} is added once too often", f"add {key} once", doubt=0.1
            )
        else:
            yield from sides.told(
                self.code,
                sides.reference + weight * values,
                f"{weight:.5g} times {key} is added",
                f"look at the weight that {key} is added with",
                assumed=1,
                specific=Specific.FORM,
            )


def _only_scales(values: np.ndarray, sides: Sides) -> bool:
    """True if an earlier tensor is nearly a multiple of the row, so that adding it only scales the row."""
    both = float(np.linalg.norm(values) * np.linalg.norm(sides.reference))
    return bool(abs(np.vdot(values, sides.reference)) > _MULTIPLE * both)


_FEWEST_REPEATED = 4
_RECORDED_DOUBT = 0.05
_GUESSED_DOUBT = 0.3  # without recorded inputs, the tensor before is taken for one


def repeated_values(case: Case) -> Iterator[EarlierValues]:
    """Yield earlier tensors whose values the candidate repeats and the reference does not, by a sample.

    Neither what was expected nor what the reference recorded may repeat them: a norm is its last product.
    """
    sides = Sides.of(case)
    if sides.reference.size < _FEWEST_REPEATED:
        return
    flat = sampled_indices(sides.reference.size)
    candidate, allowed = sides.candidate.reshape(-1)[flat], sides.allowed.reshape(-1)[flat]
    right = [values.reshape(-1)[flat] for values in (sides.reference, case.reference)]
    for one in earlier_values(case):
        with np.errstate(invalid="ignore"):
            same = np.abs(candidate - one.candidate.reshape(-1)[flat]) <= allowed
            rightly = [(np.abs(values - one.reference.reshape(-1)[flat]) <= allowed).all() for values in right]
        if same.all() and not any(rightly) and np.ptp(candidate.real) > 0:
            yield one


class ValuesStale(Hypothesis):
    """The candidate has the values of an earlier tensor.

    A buffer is used again before it is read, a cache is not updated, a loop keeps the state of the step before, a
    branch returns what another made.

    Tested against every earlier tensor of the same shape. Copy before the buffer is used again, or update the cache.
    """

    code = "values.stale"

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        for one in repeated_values(case):
            if one.is_input and not one.guessed:
                continue
            yield from sides.told(
                self.code,
                one.candidate,
                f"the candidate has the values of {one.key}",
                f"see why {case.key} still holds {one.key}: a buffer used again, a cache not updated",
                specific=Specific.FORM,
            )
            return


class OpSkipped(Hypothesis):
    """The operation is not done: what comes out is what went in.

    A layer is left out, a condition is false, a function returns its argument.

    Tested against the candidate's own inputs. Do the operation.
    """

    code = "op.skipped"

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        for one in repeated_values(case):
            if one.is_input:
                yield from sides.told(
                    self.code,
                    one.candidate,
                    f"the output is the input ({one.key})",
                    f"apply {case.key}{f' ({case.op})' if case.op else ''}",
                    implies=() if one.guessed else ("values.stale",),
                    doubt=_GUESSED_DOUBT if one.guessed else _RECORDED_DOUBT,
                )
                return


RESIDUAL_MISSING: Final = ResidualMissing()
STALE: Final = ValuesStale()
SKIPPED: Final = OpSkipped()
