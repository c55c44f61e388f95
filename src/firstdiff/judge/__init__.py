"""What is allowed, and whether a measured pair stays within it."""

from firstdiff.judge.rules import NamedRule, Rules, load_rules
from firstdiff.judge.tolerance import tolerance_for
from firstdiff.judge.verdict import Judgement, judge, judge_channels

__all__ = ["Judgement", "NamedRule", "Rules", "judge", "judge_channels", "load_rules", "tolerance_for"]
