"""Tolerances, and the verdict on measured pairs."""

from firstdiff.judge.control import beside_control
from firstdiff.judge.masks import masks_in_one_form, tokens_that_see_nothing
from firstdiff.judge.noise_rule import limits_for, percent, short_name
from firstdiff.judge.rules import NamedRule, Rules, load_rules, parse_rules, tolerances_toml
from firstdiff.judge.systematic import (
    are_of_two_types,
    exact_kind,
    is_cast,
    judged_again,
    judged_systematic,
    level_allowed,
    other_weights,
    ratio_to_limits,
    systematic_of,
    without_fillers,
)
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
    "are_of_two_types",
    "basis_of",
    "beside_control",
    "coarsest_ancestors",
    "envelope_of",
    "exact_kind",
    "is_cast",
    "judge",
    "judge_channels",
    "judged_again",
    "judged_systematic",
    "level_allowed",
    "limits_for",
    "load_rules",
    "masks_in_one_form",
    "nonfinite_reasons",
    "other_weights",
    "parse_rules",
    "percent",
    "ratio",
    "ratio_to_limits",
    "reasons_of",
    "required_of",
    "short_name",
    "systematic_of",
    "tokens_that_see_nothing",
    "tolerance_for",
    "tolerances_toml",
    "without_fillers",
    "worst_ratio",
]
