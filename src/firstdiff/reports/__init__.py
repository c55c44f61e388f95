"""Reports of a Comparison: terminal, Markdown, JSON, JUnit, GitHub, assertion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firstdiff.schema import Comparison


@dataclass(frozen=True, slots=True)
class Report:
    """One form, and one entry of the hook `firstdiff.reports`.

    name: what `--format` calls it
    render: the text, in pieces so that a huge comparison need not be one string
    """

    name: str
    render: Callable[[Comparison], Iterator[str]]


def report_named(name: str) -> Report:
    """The report of that name; UsageError lists those there are."""
    from firstdiff import plugins
    from firstdiff.errors import UsageError

    known: dict[str, Report] = {report.name: report for report in plugins.loaded("reports")}
    if name not in known:
        raise UsageError(f"--format is {name!r}; it takes one of {', '.join(sorted(known))}")
    return known[name]
