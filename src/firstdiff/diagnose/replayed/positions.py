"""Hypotheses: positions counted from another start, rotary embeddings at another rate or in other pairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant, solve_setting
from firstdiff.diagnose.hypothesis import Explanation
from firstdiff.dtypes import doubles
from firstdiff.ops import Plan, arithmetic, indexing, rotary

_OFFSETS = (1, -1, 2, -2, 3, -3)


class PositionOffset(Counterfactual):
    """Positions are counted from another number.

    Positions begin at 0, at 1, or (RoBERTa, OPT) at 2; with a cache they go on from the number of tokens seen. Off by
    a constant, every token gets its neighbour's position.

    Tested on the positions themselves, and by moving what tables of positions and rotary embeddings are asked for.
    Count from where the reference does.
    """

    code = "position.offset"
    functions = (indexing.embedding, rotary.rotary_tables, rotary.rotary)

    def applies(self, case: Case) -> bool:
        return case.comparable

    def test(self, case: Case) -> Iterator[Explanation]:
        yield from super().test(case)
        expected, candidate = case.expected, case.candidate
        if not _may_be_positions(case) or not expected.size:
            return
        offset = float(candidate.flat[0] - expected.flat[0])
        predicted = expected + offset
        fit = case.fit(predicted)
        yield Explanation(
            cause=self.code,
            fit=fit,
            evidence=f"with positions moved by {offset:g} {case.falls_to(fit)}",
            fix=f"count positions from {expected.flat[0]:g} instead of {candidate.flat[0]:g}",
            doubt=0.0 if _count_up(expected) else 0.2,
            implies=("offset.constant", "ids.mismatch", "shift.sequence", "values.zero"),
            predicted=predicted,
        )

    def variants(self, trial: Trial) -> Iterator[Variant]:
        if trial.function is indexing.embedding and not _count_up(np.asarray(trial.plan.arrays["input"])):
            return
        right = trial.plan.settings["offset"]
        for offset in _OFFSETS:
            yield Variant(
                plan=trial.plan.changed(offset=right + offset),
                what=f"with positions moved by {offset}",
                fix=f"count positions in {trial.key} as the reference does",
                implies=("ids.mismatch", "shift.sequence", "weights.differ"),
            )


def _may_be_positions(case: Case) -> bool:
    """True for whole numbers that count up, or that cannot be token ids."""
    expected, candidate = case.expected, case.candidate
    if np.any(expected != np.round(expected)) or np.any(candidate != np.round(candidate)):
        return False
    if expected.size > 1 and _count_up(expected) and _count_up(candidate):
        return True
    words = f"{case.name}.{case.slot}".lower()
    of_tokens = case.op == "Embedding" or ("ids" in words and "position" not in words) or "token" in words
    return case.dtype.kind in "iu" and case.role == "input" and not of_tokens


def _count_up(numbers: np.ndarray) -> bool:
    """True if values grow by 1 along the last axis."""
    return numbers.ndim > 0 and numbers.shape[-1] > 1 and bool(np.all(np.diff(numbers, axis=-1) == 1))


_USUAL = (10000.0, 500000.0, 1000000.0, 100000.0, 5000000.0, 100.0, 20000.0, 50000.0, 8000000.0, 1000.0, 1e7)
_SCALINGS = (2.0, 4.0, 8.0, 16.0, 32.0, 0.5, 0.25)


class RopeBase(Counterfactual):
    """Rotary embeddings turn at another rate.

    The frequencies come from a base: 10000 in the first models, 500000 or 1000000 in later ones; some divide the
    positions by a factor. Position 0 is right with any base, and the error grows with the position.

    Tested by solving for the base, and the factor, that give the candidate's angles. Set `rope_theta` to the
    reference's.
    """

    code = "rope.base"
    functions = (rotary.rotary_tables, rotary.rotary, arithmetic.power)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        plan, size, right = _as_function_of_base(trial.plan)
        if plan is not None and right is not None:
            solved = solve_setting(
                Trial(trial.case, trial.operation.with_plan(plan)), "base", usual=_USUAL, low=2.0, high=1e9
            )
            if solved is not None and abs(solved.value / right - 1.0) > 1e-6:
                yield Variant(
                    plan=solved.plan,
                    fit=solved.fit,
                    what=f"with a base of {solved.value:.6g} instead of {right:.6g}",
                    fix=f"set the base of the rotary embedding (rope_theta) to {right:.6g}",
                    assumed=0 if solved.usual else 1,
                    implies=("scale.channel", "scale.row", "weights.differ"),
                )
        if "factor" in trial.plan.settings and size:
            now = float(trial.plan.settings["factor"])
            for factor in _SCALINGS:
                yield Variant(
                    plan=trial.plan.changed(factor=now * factor),
                    what=f"with positions divided by {now * factor:g} instead of {now:g}",
                    fix=f"scale the positions of {trial.key} as the reference does (rope_scaling)",
                )


def _as_function_of_base(plan: Plan) -> tuple[Plan | None, int, float | None]:
    """Return the operation as a function of its base, estimated from the frequencies where it is not a setting."""
    if plan.function is rotary.rotary:
        return plan, int(np.shape(plan.arrays["input"])[-1]), float(plan.settings["base"])
    if plan.function is arithmetic.power:
        exponents = doubles(plan.arrays["exponent"])
        right = plan.arrays["input"]
        if np.ndim(right) or exponents.ndim != 1 or exponents.size < 2 or abs(exponents[0]) > 0:
            return None, 0, None
        return Plan.of(_power, {"exponent": exponents}, base=float(right)), exponents.size, float(right)
    speeds = doubles(plan.arrays["inv_freq"])
    size = 2 * speeds.shape[-1]
    if speeds.ndim != 1 or speeds.size < 2 or speeds[0] <= 0 or speeds[-1] <= 0:
        return None, 0, None
    right = float((speeds[0] / speeds[-1]) ** (size / (size - 2)))
    arrays = {"positions": plan.arrays["positions"], "first": speeds[:1]}
    settings = {
        name: value for name, value in plan.settings.items() if name in ("offset", "factor", "scaling", "layout")
    }
    if not np.allclose(speeds, speeds[0] * rotary.frequencies(size, base=right), rtol=1e-4):
        return None, size, None
    return Plan.of(_tables, arrays, base=right, size=size, **settings), size, right


def _power(exponent: np.ndarray, *, base: float) -> np.ndarray:
    return np.asarray(np.power(base, exponent))


def _tables(
    positions: np.ndarray,
    first: np.ndarray,
    *,
    base: float,
    size: int,
    offset: float,
    factor: float,
    scaling: float,
    layout: str,
) -> tuple[np.ndarray, np.ndarray]:
    speeds = first * rotary.frequencies(size, base=base)
    return rotary.rotary_tables(positions, speeds, offset=offset, factor=factor, scaling=scaling, layout=layout)


class RopeInterleave(Counterfactual):
    """Rotary embeddings turn the wrong pairs, or turn them the other way.

    A pair is an element of each half (Llama in transformers, GPT-NeoX) or two neighbours (GPT-J, Llama's own
    checkpoints). Weights made for one layout give other values in the other, silently.

    Tested by turning the pairs of the other layout, and by turning back. Use the reference's layout, or permute the
    weights of query and key.
    """

    code = "layout.rope_interleave"
    also = ("rope.direction",)
    functions = (rotary.apply_rotary, rotary.rotary, rotary.rotary_tables)

    def variants(self, trial: Trial) -> Iterator[Variant]:
        right = trial.plan.settings["layout"]
        other = "interleaved" if right == "half" else "half"
        yield Variant(
            plan=trial.plan.changed(layout=other),
            what=f"with pairs {'next to each other' if other == 'interleaved' else 'half a head apart'}",
            fix=f"turn the pairs of the reference in {trial.key} (its layout is {right})",
        )
        if "inverse" in trial.plan.settings:
            yield Variant(
                plan=trial.plan.changed(inverse=True),
                what="with the angle negative",
                fix=f"turn the other way in {trial.key}: check the signs of sine",
                cause="rope.direction",
            )


POSITION_OFFSET: Final = PositionOffset()
ROPE_BASE: Final = RopeBase()
ROPE_INTERLEAVE: Final = RopeInterleave()
