"""GitHub Actions: annotations on the run, and Markdown in the job's summary."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from firstdiff.errors import WriteError
from firstdiff.reports import Report
from firstdiff.reports.markdown import MARKDOWN
from firstdiff.reports.outline import introduced_rows
from firstdiff.reports.sentences import answer, cause, divergence, summary, title
from firstdiff.schema import Comparison, Pair

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
_MOST_ROWS = 9  # GitHub shows ten annotations of a step


def annotation(level: Literal["error", "warning", "notice"], heading: str, text: str) -> str:
    """Return one line that GitHub shows on the run.

    >>> annotation("error", "a: b", "50 % off")
    '::error title=a%3A b::50 %25 off\\n'
    """
    escaped = _escaped(heading).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={escaped}::{_escaped(text)}\n"


def add_to_summary(pieces: Iterable[str]) -> None:
    """Add Markdown to the summary of the job; nothing where there is no job."""
    path = os.environ.get(SUMMARY_VARIABLE)
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8", newline="\n") as file:
            file.writelines(pieces)
    except OSError as error:
        raise WriteError(f"cannot write the job's summary to {path} ({error.strerror or error})") from error


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _github(comparison: Comparison) -> Iterator[str]:
    add_to_summary(MARKDOWN.render(comparison))
    first = comparison.first_divergence
    if comparison.verdict == "match":
        yield annotation("notice", "firstdiff", summary(comparison))
    elif first is not None:
        yield annotation("error", divergence(comparison, first), "\n".join(answer(comparison)))
    else:
        yield annotation("error", "firstdiff", summary(comparison))
    others = [pair for pair in introduced_rows(comparison) if first is None or pair.index != first.pair]
    for pair in others[:_MOST_ROWS]:
        yield annotation("error", f"introduced: {title(pair)}", _known(pair))
    for text in comparison.warnings:
        yield annotation("warning", "firstdiff", text)


def _known(pair: Pair) -> str:
    found = pair.diagnosis[0] if pair.diagnosis else None
    return f"{cause(found)}: {found.evidence}\n{found.fix}" if found else pair.reason or pair.status


GITHUB = Report("github", _github)
