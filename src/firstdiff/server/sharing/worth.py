"""Order rows by importance for the offline page."""

from __future__ import annotations

import math
from typing import Any

_STATUSES = ("failed", "mismatch", "inconclusive", "missing", "extra", "rewritten", "match", "alone")


def by_worth(head: dict[str, Any], rows: list[dict[str, Any]]) -> list[int]:
    """Return the indices of all rows: divergences and origins first, then by status, the worst ratio first."""
    begun = [found["pair"] for found in _beginnings(head)]
    origins = [row["index"] for row in rows if row.get("origin") == "introduced"]
    named = list(dict.fromkeys([*begun, *origins]))
    rest = sorted((row for row in rows if row["index"] not in set(named)), key=_worse_first)
    return [*named, *(row["index"] for row in rest)]


def _beginnings(head: dict[str, Any]) -> list[dict[str, Any]]:
    first = [head["first_divergence"]] if head.get("first_divergence") else []
    return [*first, *head.get("divergences", [])]


def _worse_first(row: dict[str, Any]) -> tuple[int, float, int]:
    """Return the sort key of a row; a ratio stored as a string is not finite, and the worst."""
    ratio = row.get("ratio")
    size = math.inf if isinstance(ratio, str) else ratio or 0.0
    return _STATUSES.index(row["status"]), -size, row["index"]
