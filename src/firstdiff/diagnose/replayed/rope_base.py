"""Hypothesis: rotary embeddings with another base or scaling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.counterfactual import Counterfactual, Trial, Variant, solve_setting
from firstdiff.dtypes import doubles
from firstdiff.ops import Plan, arithmetic, rotary

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
        plan, size, right = _by_base(trial.plan)
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


def _by_base(plan: Plan) -> tuple[Plan | None, int, float | None]:
    """The operation as a function of the base; the base is read off the frequencies where it is not a setting."""
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


HYPOTHESIS: Final = RopeBase()
