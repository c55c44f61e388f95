"""What is allowed, and whether a measured pair stays within it."""

from firstdiff.judge.rules import NamedRule, Rules, load_rules, parse_rules, tolerances_toml
from firstdiff.judge.tolerance import coarsest_ancestors, tolerance_for
from firstdiff.judge.verdict import (
    BEYOND_TOLERANCE,
    Judgement,
    basis_of,
    envelope_of,
    judge,
    judge_channels,
    nonfinite_reasons,
    ratio,
    worst_ratio,
)

__all__ = [
    "BEYOND_TOLERANCE",
    "Judgement",
    "NamedRule",
    "Rules",
    "basis_of",
    "coarsest_ancestors",
    "envelope_of",
    "judge",
    "judge_channels",
    "load_rules",
    "nonfinite_reasons",
    "parse_rules",
    "ratio",
    "tolerance_for",
    "tolerances_toml",
    "worst_ratio",
]
