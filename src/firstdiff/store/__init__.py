"""Saved comparisons: a SQLite file, and beside it the uploads and the results."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from pathlib import Path
from typing import final

from firstdiff.json_text import from_plain
from firstdiff.schema import Summary
from firstdiff.store.comparisons import Comparisons, edits_of, job_of, uploads_of
from firstdiff.store.database import Database, StoreError
from firstdiff.store.entry import Edits, Entry, Given, Job, Outcome, Progress, SideOut
from firstdiff.store.home import Home, Owner, bytes_below, default_home, is_alive
from firstdiff.store.results import run_of
from firstdiff.store.uploads import UnknownError, Uploads

__all__ = ["Edits", "Entry", "Given", "Home", "Job", "Outcome", "Progress", "Store", "StoreError", "default_home"]

ABANDONED_AFTER = 7 * 86400.0
_FINISHED_STATES = ("done", "failed", "cancelled")


@final
class Store:
    """Everything under one home; several servers may share it.

    >>> store = Store("comparisons")                                            # doctest: +SKIP
    >>> [entry.name for entry in store.entries()]                               # doctest: +SKIP
    ['reference.zip and candidate.zip']
    """

    def __init__(self, home: str | Path) -> None:
        self.home = Home(Path(home))
        self._database = Database(self.home.database)
        self.comparisons = Comparisons(self._database)
        self.uploads = Uploads(self._database, self.home)

    def close(self) -> None:
        self._database.close()

    def own(self) -> Owner:
        """Register as a server that runs comparisons; jobs of dead servers are queued again."""
        sweep(self)
        owner = Owner(self.home.servers)
        self.release_dead(owner)
        return owner

    def release_dead(self, but: Owner) -> None:
        """Put back what servers that are gone left running; whoever asks is alive, whatever the file system says."""
        for owner in self.comparisons.owners():
            if owner != but.id and not is_alive(self.home.servers, owner):
                self.comparisons.release(owner)

    def entry(self, comparison: str) -> Entry:
        return self._entry(self.comparisons.row(comparison))

    def entries(self) -> list[Entry]:
        """Return all comparisons, the newest first."""
        return [self._entry(row) for row in self.comparisons.rows()]

    def bytes(self) -> int:
        """Return the disk space used by all results and uploads."""
        return bytes_below(self.home.all_results) + self.uploads.size()

    def job(self, comparison: str) -> Job:
        return job_of(self.comparisons.row(comparison))

    def edits(self, comparison: str) -> Edits:
        return edits_of(json.loads(self.comparisons.row(comparison)["edits"]))

    def same_bytes(self, one: Given, other: Given) -> bool:
        """True if two uploads have the same bytes; False for paths."""
        if one.upload is None or other.upload is None:
            return False
        return one.upload == other.upload or self.uploads.digests(one.upload) == self.uploads.digests(other.upload)

    def stamp(self, given: Given) -> object:
        """Return a stamp that changes with the files of a side; uploads never do."""
        return given.upload or _stamp(given.path)

    def result_folder(self, comparison: str) -> Path | None:
        """Return the folder of the result to show; None if there is none yet."""
        shown = self.comparisons.row(comparison)["shown"]
        return None if shown is None else self.home.result(comparison, shown)

    def drop_old_results(self, job: Job) -> None:
        """Remove what this run and those before it wrote, but for the result that is shown."""
        try:
            shown = self.result_folder(job.id)
        except UnknownError:  # deleted in the meantime
            shown = None
        for folder in self.home.results(job.id).glob("*"):
            if folder != shown and run_of(folder) <= job.run:
                shutil.rmtree(folder, ignore_errors=True)

    def delete(self, comparison: str) -> None:
        """Delete a comparison, its results, and the uploads that no other one uses."""
        try:
            unused = self.comparisons.delete(comparison)
        except StoreError:  # the disk is full: free space first
            shutil.rmtree(self.home.results(comparison), ignore_errors=True)
            for upload in self.comparisons.own_uploads(comparison):
                self.uploads.drop_data(upload)
            unused = self.comparisons.delete(comparison)
        for upload in unused:
            self.uploads.delete(upload)
        shutil.rmtree(self.home.results(comparison), ignore_errors=True)

    def _entry(self, row: sqlite3.Row) -> Entry:
        outcome = json.loads(row["outcome"]) if row["outcome"] else None
        sides = {
            side: self._side(from_plain(Given, given), (outcome or {}).get("tensors", {}).get(side))
            for side, given in json.loads(row["sides"]).items()
        }
        uploaded = {side.upload: side.bytes or 0 for side in sides.values() if side.upload}
        return Entry(
            id=row["id"],
            name=row["name"],
            kind=row["kind"],
            state=row["state"],
            created=row["created"],
            finished=row["finished"],
            reference=sides["reference"],
            candidate=sides.get("candidate"),
            third=sides.get("third"),
            verdict=outcome and outcome["verdict"],
            summary=from_plain(Summary, outcome["summary"]) if outcome else None,
            first=outcome and outcome["first"],
            bytes=sum(uploaded.values()) + bytes_below(self.home.results(row["id"])),
            progress=_progress(row["progress"]),
            error=row["error"],
        )

    def _side(self, given: Given, tensors: int | None) -> SideOut:
        size: int | None
        if given.upload is not None:
            arrived = self.uploads.have(given.upload)
            present, size = arrived is not None and arrived.have == arrived.size, arrived.have if arrived else None
        else:
            present, size = _there(given.path)
        return SideOut(
            label=given.label, path=given.path, upload=given.upload, tensors=tensors, bytes=size, present=present
        )


def _there(path: str | None) -> tuple[bool, int | None]:
    try:
        status = Path(path or "").stat()
    except (OSError, ValueError):
        return False, None
    return True, None if Path(path or "").is_dir() else status.st_size


def _stamp(path: str | None) -> object:
    try:
        status = Path(path or "").stat()
    except (OSError, ValueError):
        return None
    return path, status.st_size, status.st_mtime_ns, status.st_ino


def _progress(stored: str | None) -> Progress | None:
    return from_plain(Progress, json.loads(stored)) if stored else None


def sweep(store: Store) -> None:
    """Remove leftovers of killed servers, and abandoned uploads.

    Folders are listed before the tables are read, so that whatever appears meanwhile stays.
    """
    results, uploads = _folders(store.home.all_results), _folders(store.home.uploads)
    rows = store.comparisons.rows()
    for row in rows:
        if row["state"] in _FINISHED_STATES and row["id"] in results:
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
        is_alive(store.home.servers, server)  # removes the lock of a dead one


def _folders(parent: Path) -> dict[str, Path]:
    return {folder.name: folder for folder in parent.glob("*")}


def _idle(folder: Path | None) -> float:
    """Return the seconds since anything arrived; 0 for an upload of which nothing has yet."""
    try:
        times = [path.stat().st_mtime for path in (folder, *folder.iterdir())] if folder else []
    except OSError:
        times = []
    return time.time() - max(times, default=time.time())
