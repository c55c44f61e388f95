"""The database of saved comparisons: connection, migrations and times."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, final

from firstdiff.errors import FirstdiffError

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE comparisons (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL,
        kind TEXT NOT NULL,
        state TEXT NOT NULL,
        created TEXT NOT NULL,
        finished TEXT,
        sides TEXT NOT NULL,
        options TEXT NOT NULL,
        edits TEXT NOT NULL,
        run INTEGER NOT NULL,
        shown INTEGER,
        owner TEXT,
        progress TEXT,
        outcome TEXT,
        error TEXT
    );
    CREATE INDEX comparisons_by_state ON comparisons (state, number);
    CREATE TABLE uploads (
        id TEXT PRIMARY KEY,
        created TEXT NOT NULL
    );
    CREATE TABLE files (
        upload TEXT NOT NULL REFERENCES uploads (id) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        name TEXT NOT NULL,
        size INTEGER NOT NULL,
        have INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (upload, number)
    ) WITHOUT ROWID;
    CREATE TABLE chunks (
        upload TEXT NOT NULL,
        number INTEGER NOT NULL,
        start INTEGER NOT NULL,
        size INTEGER NOT NULL,
        digest TEXT NOT NULL,
        PRIMARY KEY (upload, number, start),
        FOREIGN KEY (upload, number) REFERENCES files (upload, number) ON DELETE CASCADE
    ) WITHOUT ROWID;
    """,
)


_BUSY_SECONDS = 30.0


class StoreError(FirstdiffError):
    """The store cannot be used: its folder, its disk, or its version."""


@final
class Database:
    """Opened and brought up to date. Several processes may have the same file open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._connection.row_factory = sqlite3.Row
            for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
                self._connection.execute(f"PRAGMA {pragma}")
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"cannot keep comparisons in {path.parent} ({_reason(error)}); choose another --home"
            ) from error
        self._migrate()

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Return the rows of a query."""
        with self._lock, self._said():
            return self._connection.execute(sql, values).fetchall()

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run one statement; returns how many rows it changed."""
        with self._lock, self._said():
            return self._connection.execute(sql, values).rowcount

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Open a transaction; other processes wait."""
        with self._lock, self._said():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def _migrate(self) -> None:
        with self.transaction():
            version = self.rows("PRAGMA user_version")[0][0]
            if version > len(MIGRATIONS):
                raise StoreError(
                    f"{self._path} was written by a newer firstdiff (version {version} of its tables, this one knows "
                    f"{len(MIGRATIONS)}); update firstdiff or choose another --home"
                )
            for step in MIGRATIONS[version:]:
                for statement in filter(str.strip, step.split(";")):
                    self._connection.execute(statement)
            self._connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")

    @contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"the store {self._path} cannot be used ({_reason(error)})") from error


def _reason(error: Exception) -> str:
    if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
        return "the disk is full; delete comparisons or make room"
    if "readonly" in str(error):
        return "it may not be written to; choose another --home"
    return getattr(error, "strerror", None) or str(error)


def now() -> str:
    """Return the current time in UTC, such as 2026-03-01T12:00:00.123456Z; texts of this form sort by time."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
