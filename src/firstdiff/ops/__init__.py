"""Operators in plain float64, and the replay of recorded operations with them. `docs/replay.md` lists them."""

from firstdiff.ops.plan import Plan
from firstdiff.ops.replaying import NotReplayable, Replayed, plans, replay, reproduce
from firstdiff.ops.residuals import fit_limit, fits, residual, within_half_steps

__all__ = [
    "NotReplayable",
    "Plan",
    "Replayed",
    "fit_limit",
    "fits",
    "plans",
    "replay",
    "reproduce",
    "residual",
    "within_half_steps",
]
