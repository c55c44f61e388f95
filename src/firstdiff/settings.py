"""Limits and folders, from environment variables."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from firstdiff.errors import SettingsError

GIB = 1 << 30


@dataclass(frozen=True)
class Limits:
    """Limits on unpacking archives, against zip bombs.

    max_unpacked: bytes in all (FIRSTDIFF_MAX_UNPACKED)
    max_ratio: unpacked by packed size, beyond `free_unpacked` bytes (FIRSTDIFF_MAX_RATIO)
    max_members: files in one archive (FIRSTDIFF_MAX_MEMBERS)
    cache_bytes: what the folder of unpacked members may hold (FIRSTDIFF_CACHE_BYTES)
    """

    max_unpacked: int = 256 * GIB
    max_ratio: int = 100
    free_unpacked: int = GIB
    max_members: int = 1_000_000
    cache_bytes: int = 64 * GIB

    @classmethod
    def from_environment(cls) -> Limits:
        return cls(
            max_unpacked=_positive("FIRSTDIFF_MAX_UNPACKED", cls.max_unpacked),
            max_ratio=_positive("FIRSTDIFF_MAX_RATIO", cls.max_ratio),
            free_unpacked=_positive("FIRSTDIFF_FREE_UNPACKED", cls.free_unpacked),
            max_members=_positive("FIRSTDIFF_MAX_MEMBERS", cls.max_members),
            cache_bytes=_positive("FIRSTDIFF_CACHE_BYTES", cls.cache_bytes),
        )


def cache_folder() -> Path:
    """Return the folder for unpacked members and compiled code: FIRSTDIFF_CACHE, or the system's cache folder."""
    if stated := os.environ.get("FIRSTDIFF_CACHE"):
        return Path(stated).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        return (Path(base) if base else Path.home() / "AppData" / "Local") / "firstdiff" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "firstdiff"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "firstdiff"


def _positive(variable: str, default: int) -> int:
    text = os.environ.get(variable)
    if text is None:
        return default
    try:
        value = int(text.replace("_", ""))
    except ValueError:
        value = 0
    if value <= 0:
        raise SettingsError(f"{variable} is {text!r}; it takes a whole number above 0")
    return value
