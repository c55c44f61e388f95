"""Downsampled overviews of large planes, cached on disk beside the comparisons."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import numpy as np

from firstdiff.trace import Source
from firstdiff.viewing import Cut, overview

# smaller planes are pooled faster than they are found on disk
_KEPT_FROM = 4 << 20
_MOST_KEPT = 512


def cached_overview(
    folder: Path, label: str, sources: tuple[Source, ...], at: str, rows: int, columns: int
) -> np.ndarray:
    """As `viewing.overview`; what was computed before is taken from disk as long as the files are the same.

    folder: where they are kept
    label: tells this tensor from all others that share the folder
    """
    cut = Cut.parse(at, sources[0].shape)
    stamps = [source.stamp() for source in sources]
    if cut.size < _KEPT_FROM or any(stamp is None for stamp in stamps):
        return overview(sources, cut, rows, columns)
    words = repr((label, stamps, at, rows, columns))
    file = folder / f"{hashlib.sha256(words.encode()).hexdigest()[:32]}.npy"
    try:
        return np.asarray(np.load(file, allow_pickle=False))
    except (OSError, ValueError):
        cells = overview(sources, cut, rows, columns)
        _keep(file, cells)
        return cells


def _keep(file: Path, cells: np.ndarray) -> None:
    """Losing one costs only the time to compute it again."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
        with os.fdopen(handle, "wb") as part:
            np.save(part, cells)
        Path(name).replace(file)
        kept = sorted(file.parent.glob("*.npy"), key=lambda one: one.stat().st_mtime)
        for old in kept[:-_MOST_KEPT]:
            old.unlink(missing_ok=True)
    except OSError:
        return
