"""Operations whose result rounding decides: the reference's own is as far off as any candidate's."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from firstdiff import dtypes
from firstdiff.judge.noise_rule import percent

if TYPE_CHECKING:  # the operators are many, and most comparisons need none of them
    from firstdiff.ops import Plan, Replayed

_APART = 2.0  # times its own error that another run of an ill-conditioned operation may be off the reference
_EXPLAINS = 0.25  # of an error, for one rounding of the inputs to be its reason


def ill_conditioned(again: Replayed, slot: str, reference: np.ndarray, candidate: np.ndarray) -> str | None:
    """Say so if rounding keeps the reference about as far from its exact value as the candidate is from it.

    again: the reference's operation computed in float64, which does not give its recorded output
    """
    exact, recorded, own = again.outputs[slot], dtypes.doubles(reference), dtypes.doubles(candidate)
    if not exact.shape == own.shape == recorded.shape:
        return None
    off, apart, size = (float(np.linalg.norm(values)) for values in (exact - recorded, own - recorded, recorded))
    if not (isfinite(off) and isfinite(apart)) or _APART * off < apart or not size:
        return None
    if _moved_by_rounding(again.plan, slot, exact, reference.dtype) < _EXPLAINS * off:
        return None
    return (
        f"the reference is ill-conditioned here: it is {percent(off / size)} off what its own inputs give in "
        f"float64, and the candidate {percent(apart / size)} off the reference"
    )


def _moved_by_rounding(plan: Plan, slot: str, exact: np.ndarray, dtype: np.dtype) -> float:
    """Return how far a result moves if each of its inputs is rounded once more; the same for the same inputs."""
    rng, eps = np.random.default_rng(0), dtypes.eps_of(dtype)
    arrays = {
        name: dtypes.doubles(values) * (1.0 + 0.5 * eps * rng.choice((-1.0, 1.0), np.shape(values)))
        for name, values in plan.arrays.items()
        if isinstance(values, np.ndarray) and dtypes.kind_of(values.dtype) == "float"
    }
    try:
        moved = plan.on(**arrays).run()[slot]
    except (ValueError, KeyError):
        return 0.0
    return float(np.linalg.norm(moved - exact))
