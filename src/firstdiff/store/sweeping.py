"""Remove leftovers of killed servers, and abandoned uploads."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from firstdiff.store.comparisons import job_of, uploads_of
from firstdiff.store.home import is_alive

if TYPE_CHECKING:
    from firstdiff.store import Store

ABANDONED_AFTER = 7 * 86400.0
_OVER = ("done", "failed", "cancelled")


def sweep(store: Store) -> None:
    """Folders are listed before the tables are read: what appears meanwhile is in neither, and stays."""
    results, uploads = _folders(store.home.all_results), _folders(store.home.uploads)
    rows = store.comparisons.rows()
    for row in rows:
        if row["state"] in _OVER and row["id"] in results:
            store.drop_old_results(job_of(row))
    used = {upload for row in rows for upload in uploads_of(row)}
    for upload in store.uploads.ids():
        if upload not in used and _idle(uploads.get(upload)) > ABANDONED_AFTER:
            store.uploads.delete(upload)
    known = {row["id"] for row in rows} | set(store.uploads.ids())
    for name, folder in (*results.items(), *uploads.items()):
        if name not in known:
            shutil.rmtree(folder, ignore_errors=True)
    for server in _folders(store.home.servers):
        is_alive(store.home.servers, server)  # clears away what a dead one left


def _folders(parent: Path) -> dict[str, Path]:
    return {folder.name: folder for folder in parent.glob("*")}


def _idle(folder: Path | None) -> float:
    """Seconds since anything arrived; an upload of which nothing has, yet, is not idle."""
    try:
        times = [path.stat().st_mtime for path in (folder, *folder.iterdir())] if folder else []
    except OSError:
        times = []
    return time.time() - max(times, default=time.time())
