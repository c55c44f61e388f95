"""What is allowed, and whether a measured pair stays within it."""

from firstdiff.judge.ancestry import coarsest_ancestors
from firstdiff.judge.rules import NamedRule, Rules, load_rules, parse_rules
from firstdiff.judge.tolerance import tolerance_for
from firstdiff.judge.verdict import Judgement, judge, judge_channels

__all__ = [
    "Judgement",
    "NamedRule",
    "Rules",
    "coarsest_ancestors",
    "judge",
    "judge_channels",
    "load_rules",
    "parse_rules",
    "tolerance_for",
]
