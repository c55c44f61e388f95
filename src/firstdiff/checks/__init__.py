"""Rules that a trace must keep whatever it is compared with: finite values, sums of 1, valid ids, …"""

from firstdiff.checks.report import CheckReport, Failure, RuleResult
from firstdiff.checks.rule_file import Rule, RuleFile, load_rule_file, parse_rule_file
from firstdiff.checks.running import check, check_trace, measure_bands

__all__ = [
    "CheckReport",
    "Failure",
    "Rule",
    "RuleFile",
    "RuleResult",
    "check",
    "check_trace",
    "load_rule_file",
    "measure_bands",
    "parse_rule_file",
]
