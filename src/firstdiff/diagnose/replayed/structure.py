"""Hypotheses: an operation left out or repeated, a residual that is missing, active dropout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.dtypes import doubles
from firstdiff.ops import Plan, activations, arithmetic

_NO_INPUTS = ("weight", "bias", "mask", "mat2", "batch2")
# many mistakes look like a skipped operation
_SKIPPED_DOUBT = 0.15


class OpSkipped(Counterfactual):
    """An operation, or a whole block, was left out.

    The candidate's output is what went in: a layer that is not in the list, a condition that is never true, an early
    return.

    Tested by taking what goes into the operation, or into the block, as its output. Run it.
    """

    code = "op.skipped"

    def applies(self, case: Case) -> bool:
        return case.comparable

    def variants(self, trial: Trial) -> Iterator[Variant]:
        for name, array in trial.plan.arrays.items():
            if isinstance(array, np.ndarray) and np.ndim(array) > 0 and name not in _NO_INPUTS:
                yield Variant(
                    plan=trial.plan.with_function(activations.identity).on(input=array),
                    what=f"as if {trial.key} gave back its {name}",
                    fix=f"run {trial.key}",
                    doubt=_SKIPPED_DOUBT,
                )

    def test(self, case: Case) -> Iterator[Explanation]:
        yield from super().test(case)
        yield from self._calls_left_out(case)
        for both in case.inputs.values():
            if both.candidate is not None and _same_shape(both.candidate, case):
                predicted = doubles(both.candidate[case.part])
                fit = case.fit(predicted)
                yield Explanation(
                    cause=self.code,
                    fit=fit,
                    evidence=f"as if {case.key} gave back {both.key} {case.falls_to(fit)}",
                    fix=f"run {case.name}",
                    predicted=predicted,
                    doubt=0.0 if case.nearby.left_out else _SKIPPED_DOUBT,
                    implies=("residual.missing",) if case.nearby.left_out else (),
                )

    def _calls_left_out(self, case: Case) -> Iterator[Explanation]:
        """Test an input for being what whole calls in front of it, of which the candidate has nothing, should get."""
        left_out = case.nearby.not_run
        if not left_out:
            return
        calls, verb = " and ".join(left_out[-2:]), "is" if len(left_out) == 1 else "are"
        if len(left_out) > 2:
            calls = f"{left_out[0]} to {left_out[-1]}"
        for both in case.sources:
            if both.candidate is None or not _same_shape(both.candidate, case):
                continue
            predicted = doubles(both.candidate[case.part])
            fit = case.fit(predicted)
            yield Explanation(
                cause=self.code,
                fit=fit,
                evidence=f"{calls} {verb} not run: {case.name} is given {both.key}, which {left_out[0]} should get: "
                f"{case.falls_to(fit)}",
                fix=f"run {calls} between {both.key.partition(':')[0]} and {_name_on_both_sides(case)}",
                predicted=predicted,
                implies=("values.stale", "residual.missing"),
            )


def _name_on_both_sides(case: Case) -> str:
    other = case.row.candidate.name if case.row.candidate else case.name
    return case.name if other == case.name else f"{case.name} (the candidate's {other})"


def _same_shape(array: Any, case: Case) -> bool:
    whole = case.candidate_whole
    return whole is not None and np.shape(array) == whole.shape


_MAIN_INPUT = "input"
_REPEATED_DOUBT = 0.1


class OpRepeated(Counterfactual):
    """An operation was applied twice.

    A norm, an activation or a scale is in the module and in the code around it as well; or a whole layer is run
    twice.

    Tested by applying the operation to its own output; and for a block, by whether its parts were called once more
    and given what the block should have given back. Apply it once.
    """

    code = "op.repeated"

    def applies(self, case: Case) -> bool:
        return case.comparable

    def test(self, case: Case) -> Iterator[Explanation]:
        if case.role == "input":
            yield from self._calls_in_front(case)
            return
        yield from super().test(case)
        for key, given in case.nearby.run_again():
            fit = case.floor_of(given).fit(case.expected)
            yield Explanation(
                cause=self.code,
                fit=fit,
                evidence=(
                    f"the candidate runs {case.name} again, on what the reference gives back: {key} differs from that "
                    f"by {fit.max_abs:.2g}"
                ),
                fix=f"run {case.name} once",
            )

    def _calls_in_front(self, case: Case) -> Iterator[Explanation]:
        """Test an input for what a call in front of it, which only the candidate makes, was given."""
        for call in case.nearby.run_between:
            fit = case.floor_of(call.given).fit(case.expected)
            copy = "" if call.name == call.of else f", as {call.name}"
            yield Explanation(
                cause=self.code,
                fit=fit,
                evidence=(
                    f"the candidate runs {call.of} again{copy}, on what should go into {case.name}: {call.key} differs "
                    f"from that by {fit.max_abs:.2g}"
                ),
                fix=f"run {call.of} once",
            )

    def variants(self, trial: Trial) -> Iterator[Variant]:
        if _MAIN_INPUT not in trial.plan.arrays or trial.function in (arithmetic.add, arithmetic.sub):
            return
        twice = _twice(trial.plan)
        if twice is not None:
            what = f"with {trial.key} applied twice"
            yield Variant(plan=twice, what=what, fix=f"apply {trial.key} once", doubt=_REPEATED_DOUBT)


def _twice(plan: Plan) -> Plan | None:
    try:
        once = plan.run()["0"]
    except ValueError:
        return None
    if once.shape != np.shape(plan.arrays[_MAIN_INPUT]) or np.asarray(plan.arrays[_MAIN_INPUT]).dtype.kind not in "fV":
        return None
    return plan.on(**{_MAIN_INPUT: once})


class ResidualMissing(Counterfactual):
    """A residual connection is missing.

    A block adds what went into it to what it computed. Without that, the rest of the model gets the branch alone, or
    the input alone, or the sum of the wrong two.

    Tested by leaving out either side of the sum. Add both.
    """

    code = "residual.missing"
    functions = (arithmetic.add, arithmetic.addcmul, arithmetic.lerp)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        arrays = trial.plan.arrays
        first, second = arrays["input"], arrays.get("other", arrays.get("end"))
        if trial.function is arithmetic.addcmul:
            second = np.asarray(arrays["tensor1"], dtype=np.float64) * np.asarray(arrays["tensor2"], dtype=np.float64)
        if second is None or np.shape(first) != np.shape(second) or np.ndim(first) < 2:
            return
        for left, kept in ((second, first), (first, second)):
            yield Variant(
                plan=trial.plan.with_function(activations.identity).on(input=kept),
                what=f"without one side of the sum ({_name_of_side(trial, left)})",
                fix=f"add both sides in {trial.key}",
                implies=() if trial.case.nearby.left_out or trial.case.nearby.not_run else ("op.skipped",),
            )


def _name_of_side(trial: Trial, left: object) -> str:
    """Return the key of the side that was left out."""
    for both in (*trial.case.inputs.values(), *trial.case.sources):
        if both.candidate is left or (
            both.candidate is not None and isinstance(left, np.ndarray) and np.array_equal(both.candidate, left)
        ):
            return both.key
    return "the second" if left is trial.plan.arrays.get("other") else "the first"


_FEWEST_VALUES = 32
_MOST_DROPPED = 0.95


class DropoutActive(Hypothesis):
    """Dropout is at work.

    In training, dropout sets a share p of the values to 0 and multiplies the others with 1 / (1 - p). A model left in
    training mode gives another result in every run.

    Tested by the pattern: every value is 0 or the reference's times one factor above 1, and the share of zeros is
    what the factor says. Put the candidate in evaluation mode (`model.eval()`).
    """

    code = "dropout.active"

    def test(self, case: Case) -> Iterator[Explanation]:
        expected, candidate = case.expected, case.candidate
        there = np.isfinite(expected) & np.isfinite(candidate) & (expected != 0)
        dropped = there & (candidate == 0)
        kept = there & ~dropped
        share = float(dropped.sum()) / max(int(there.sum()), 1)
        if there.sum() < _FEWEST_VALUES or not 0 < share < _MOST_DROPPED:
            return
        factor = float(np.median(candidate[kept] / expected[kept]))
        if factor < 1.001 or abs((1.0 - 1.0 / factor) - share) > 4.0 / np.sqrt(float(there.sum())):
            return
        predicted = np.where(dropped, 0.0, expected * factor)
        fit = case.fit(predicted)
        yield Explanation(
            cause=self.code,
            fit=fit,
            evidence=f"with {share:.0%} of the values dropped and the others times {factor:.4g} {case.falls_to(fit)}",
            fix="put the candidate in evaluation mode (model.eval())",
            assumed=1,
            predicted=predicted,
        )


OP_SKIPPED: Final = OpSkipped()
OP_REPEATED: Final = OpRepeated()
RESIDUAL_MISSING: Final = ResidualMissing()
DROPOUT_ACTIVE: Final = DropoutActive()
