"""Estimate the memory that a capture may use."""

from __future__ import annotations

import os

_ASSUMED = 4 << 30


def memory_left() -> int:
    """Bytes that may be taken without hurting others: half of what is free, or 2 GiB where the system does not say."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        free = _ASSUMED
    return free // 2
