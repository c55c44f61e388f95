"""The tables of the database as numbered migrations, applied when a store is opened."""

from __future__ import annotations

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
