"""Timestamps of the store."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """The present in UTC, such as 2026-03-01T12:00:00.123456Z; texts of this form sort by time."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
