"""The outcome of checking a trace: one result per rule, one failure per tensor that breaks it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

SCHEMA = "firstdiff/check/1"
_SHOWN_FAILURES = 5


@dataclass(frozen=True, slots=True)
class Failure:
    """A tensor that breaks a rule.

    index: of the first element, or row, that breaks it; None where the whole tensor does
    value: what was found there
    count: how many elements, or rows, break it
    text: the finding in words
    """

    key: str
    index: tuple[int, ...] | None
    value: Any
    count: int
    text: str


@dataclass(frozen=True, slots=True)
class RuleResult:
    """One rule, the number of tensors it was tried on, and those that break it."""

    name: str
    check: str
    where: str
    tensors: int
    failures: tuple[Failure, ...]

    @property
    def passed(self) -> bool:
        return not self.failures


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The JSON of `firstdiff check`."""

    path: str
    rules: tuple[RuleResult, ...]
    warnings: tuple[str, ...] = ()
    schema: str = SCHEMA

    @property
    def passed(self) -> bool:
        return all(rule.passed for rule in self.rules)

    @property
    def verdict(self) -> Literal["pass", "fail"]:
        return "pass" if self.passed else "fail"

    @property
    def failures(self) -> tuple[Failure, ...]:
        return tuple(failure for rule in self.rules for failure in rule.failures)

    def to_plain(self) -> dict[str, Any]:
        """Return what the JSON says."""
        return {
            "schema": self.schema,
            "path": self.path,
            "verdict": self.verdict,
            "warnings": self.warnings,
            "rules": [
                {
                    "name": rule.name,
                    "check": rule.check,
                    "where": rule.where,
                    "tensors": rule.tensors,
                    "verdict": "pass" if rule.passed else "fail",
                    "failures": rule.failures,
                }
                for rule in self.rules
            ],
        }

    def lines(self, *, every_failure: bool = False) -> Iterator[str]:
        """Yield the report as text, failures first in words; long lists are cut short unless all are asked for."""
        for rule in self.rules:
            mark = "ok    " if rule.passed else "FAILED"
            yield f"{mark}  {rule.name}: {rule.check} ({rule.tensors} tensor{'' if rule.tensors == 1 else 's'})"
            shown = rule.failures if every_failure else rule.failures[:_SHOWN_FAILURES]
            yield from (f"          {failure.key}: {failure.text}" for failure in shown)
            if len(shown) < len(rule.failures):
                yield f"          and {len(rule.failures) - len(shown)} more tensors; --all shows them"
        failed = sum(not rule.passed for rule in self.rules)
        if failed:
            yield f"{failed} of {len(self.rules)} rules failed in {self.path}"
        else:
            yield f"all {len(self.rules)} rules hold in {self.path}"
