"""What is allowed, and whether a measured pair stays within it."""

from firstdiff.judge.noise_rule import limits_for
from firstdiff.judge.rules import NamedRule, Rules, load_rules, parse_rules, tolerances_toml
from firstdiff.judge.systematic import exact_kind, judged_systematic, systematic_of, without_fillers
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
    reasons_of,
    required_of,
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
    "exact_kind",
    "judge",
    "judge_channels",
    "judged_systematic",
    "limits_for",
    "load_rules",
    "nonfinite_reasons",
    "parse_rules",
    "ratio",
    "reasons_of",
    "required_of",
    "systematic_of",
    "tolerance_for",
    "tolerances_toml",
    "without_fillers",
    "worst_ratio",
]
