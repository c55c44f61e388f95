"""The table of comparisons and their states.

queued -> running -> done, failed; queued or running -> cancelled; a finished one is queued again to repeat it, and a
running one if its server died.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Mapping
from typing import Any, final

from firstdiff.errors import UsageError
from firstdiff.json_text import from_plain, to_json
from firstdiff.store.database import Database, now
from firstdiff.store.entry import Edits, Given, Job, Kind, Outcome, Progress, SideName
from firstdiff.store.uploads import UnknownError

_MAX_NAME = 500


@final
class Comparisons:
    """The comparisons of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, kind: Kind, sides: Mapping[SideName, Given], options: Mapping[str, Any], name: str | None) -> str:
        """Queue a new comparison and return its id."""
        comparison = secrets.token_hex(6)
        labels = [given.label for side, given in sides.items() if side != "third"]
        self._database.change(
            "INSERT INTO comparisons (id, name, kind, state, created, sides, options, edits, run) "
            "VALUES (?, ?, ?, 'queued', ?, ?, ?, ?, 1)",
            (
                comparison,
                _name(name or " and ".join(labels)),
                kind,
                now(),
                to_json(dict(sides)),
                to_json(dict(options)),
                to_json(Edits(layer_offset=options.get("layer_offset"))),
            ),
        )
        return comparison

    def row(self, comparison: str) -> sqlite3.Row:
        found = self._database.rows("SELECT * FROM comparisons WHERE id = ?", (comparison,))
        if not found:
            raise UnknownError(f"there is no comparison {comparison!r}; it may have been deleted")
        return found[0]

    def rows(self) -> list[sqlite3.Row]:
        """Return the rows of all comparisons, the newest first."""
        return self._database.rows("SELECT * FROM comparisons ORDER BY number DESC")

    def claim(self, owner: str) -> Job | None:
        """Claim the comparison that waits longest for this owner."""
        with self._database.transaction():
            found = self._database.rows("SELECT * FROM comparisons WHERE state = 'queued' ORDER BY number LIMIT 1")
            if not found:
                return None
            self._database.change(
                "UPDATE comparisons SET state = 'running', owner = ?, progress = NULL, error = NULL WHERE id = ?",
                (owner, found[0]["id"]),
            )
        return job_of(found[0])

    def tell(self, job: Job, owner: str, progress: Progress) -> bool:
        """Keep how far a run has come; False if the run is no longer wanted."""
        changed = self._database.change(
            "UPDATE comparisons SET progress = ? WHERE id = ? AND run = ? AND owner = ? AND state = 'running'",
            (to_json(progress), job.id, job.run, owner),
        )
        return bool(changed)

    def is_wanted(self, job: Job, owner: str) -> bool:
        return bool(
            self._database.rows(
                "SELECT 1 FROM comparisons WHERE id = ? AND run = ? AND owner = ? AND state = 'running'",
                (job.id, job.run, owner),
            )
        )

    def finish(self, job: Job, owner: str, outcome: Outcome) -> bool:
        """Mark a run as done with its result; False if it was no longer wanted."""
        changed = self._database.change(
            "UPDATE comparisons SET state = 'done', finished = ?, shown = run, outcome = ?, progress = NULL, "
            "owner = NULL WHERE id = ? AND run = ? AND owner = ? AND state = 'running'",
            (now(), to_json(outcome), job.id, job.run, owner),
        )
        return bool(changed)

    def fail(self, job: Job, owner: str, error: str) -> None:
        self._database.change(
            "UPDATE comparisons SET state = 'failed', finished = ?, error = ?, progress = NULL, owner = NULL "
            "WHERE id = ? AND run = ? AND owner = ? AND state = 'running'",
            (now(), error, job.id, job.run, owner),
        )

    def cancel(self, comparison: str) -> None:
        """Stop it if it has not finished; one that has stays as it is."""
        self.row(comparison)
        self._database.change(
            "UPDATE comparisons SET state = 'cancelled', finished = ?, progress = NULL, owner = NULL "
            "WHERE id = ? AND state IN ('queued', 'running')",
            (now(), comparison),
        )

    def rerun(self, comparison: str) -> None:
        """Run it again; the result there is stays to be seen until there is a new one."""
        self.row(comparison)
        self._database.change(
            "UPDATE comparisons SET state = 'queued', run = run + 1, finished = NULL, error = NULL, progress = NULL, "
            "owner = NULL WHERE id = ?",
            (comparison,),
        )

    def release(self, owner: str) -> None:
        """Put back what an owner that is gone left running."""
        self._database.change(
            "UPDATE comparisons SET state = 'queued', progress = NULL, owner = NULL "
            "WHERE state = 'running' AND owner = ?",
            (owner,),
        )

    def owners(self) -> list[str]:
        """Return the owners of running comparisons."""
        return [
            row["owner"]
            for row in self._database.rows(
                "SELECT DISTINCT owner FROM comparisons WHERE state = 'running' AND owner IS NOT NULL"
            )
        ]

    def rename(self, comparison: str, name: str) -> None:
        self.row(comparison)
        self._database.change("UPDATE comparisons SET name = ? WHERE id = ?", (_name(name), comparison))

    def edit(self, comparison: str, edits: Edits) -> None:
        """Keep the user's changes, and run again with them."""
        with self._database.transaction():
            self.row(comparison)
            self._database.change("UPDATE comparisons SET edits = ? WHERE id = ?", (to_json(edits), comparison))
            self.rerun(comparison)

    def delete(self, comparison: str) -> tuple[str, ...]:
        """Delete a comparison; return the uploads that no other one uses."""
        with self._database.transaction():
            own = self.own_uploads(comparison)
            self._database.change("DELETE FROM comparisons WHERE id = ?", (comparison,))
        return own

    def own_uploads(self, comparison: str) -> tuple[str, ...]:
        """Return the uploads of a comparison that no other one uses."""
        own = uploads_of(self.row(comparison))
        others = {upload for row in self.rows() if row["id"] != comparison for upload in uploads_of(row)}
        return tuple(upload for upload in own if upload not in others)


def job_of(row: sqlite3.Row) -> Job:
    """Return the job of a row of the table."""
    return Job(
        id=row["id"],
        kind=row["kind"],
        run=row["run"],
        sides={side: from_plain(Given, given) for side, given in json.loads(row["sides"]).items()},
        options=json.loads(row["options"]),
        edits=edits_of(json.loads(row["edits"])),
    )


def edits_of(stored: Mapping[str, Any]) -> Edits:
    return from_plain(Edits, stored)


def uploads_of(row: sqlite3.Row) -> tuple[str, ...]:
    sides = json.loads(row["sides"]).values()
    return tuple(dict.fromkeys(side["upload"] for side in sides if side["upload"]))


def _name(name: str) -> str:
    name = " ".join(name.split())
    if not name:
        raise UsageError("a comparison needs a name with at least one letter in it")
    return name[:_MAX_NAME]
