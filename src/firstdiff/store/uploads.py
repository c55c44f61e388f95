"""Resumable uploads: files received in pieces, each checked by its digest, kept across server restarts."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import final

from firstdiff.errors import FirstdiffError, UsageError, WriteError
from firstdiff.store.database import Database, StoreError, now
from firstdiff.store.home import Home

MAX_FILES = 200_000
_MAX_NAME = 4096


class OffsetError(FirstdiffError):
    """A piece that does not follow what is there; `have` says where to go on."""

    def __init__(self, have: int, offset: int) -> None:
        super().__init__(f"{have:,} bytes of this file are here, so the next piece starts there and not at {offset:,}")
        self.have = have


class DigestError(FirstdiffError):
    """A piece that was damaged on its way."""


class UnknownError(FirstdiffError):
    """An upload or a comparison that is not, or no longer, in the store."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece that is here: where it starts, how long it is, its SHA-256."""

    start: int
    size: int
    digest: str


@dataclass(frozen=True, slots=True)
class UploadFile:
    """One file: its name with folders, its size, and how much of it is here, piece by piece."""

    index: int
    name: str
    size: int
    have: int
    chunks: tuple[Chunk, ...] = ()

    @property
    def complete(self) -> bool:
        return self.have == self.size


@dataclass(frozen=True, slots=True)
class Arrived:
    """The bytes received of an upload, and its size."""

    have: int
    size: int


@dataclass(frozen=True, slots=True)
class Upload:
    id: str
    files: tuple[UploadFile, ...]

    @property
    def complete(self) -> bool:
        return all(file.complete for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.have for file in self.files)

    @property
    def label(self) -> str:
        """The name of the upload in messages: its file, the common folder of its files, or their number."""
        names = [file.name.replace("\\", "/").strip("/") for file in self.files]
        if len(names) == 1:
            return names[0].rpartition("/")[2] or names[0]
        tops = {name.partition("/")[0] for name in names if "/" in name}
        return tops.pop() if len(tops) == 1 and all("/" in name for name in names) else f"{len(names):,} files"


@final
class Uploads:
    """The uploads of a store."""

    def __init__(self, database: Database, home: Home) -> None:
        self._database = database
        self._home = home

    def begin(self, files: Sequence[tuple[str, int]]) -> Upload:
        """A new upload of files by name and size; room for them must be on the disk."""
        _check(files)
        self._make_room(sum(size for _, size in files))
        upload = secrets.token_hex(8)
        with self._database.transaction():
            self._database.change("INSERT INTO uploads VALUES (?, ?)", (upload, now()))
            for number, (name, size) in enumerate(files):
                self._database.change(
                    "INSERT INTO files (upload, number, name, size) VALUES (?, ?, ?, ?)", (upload, number, name, size)
                )
        for number, (_, size) in enumerate(files):
            if size == 0:
                self._write(self._home.upload(upload, number), 0, b"")
        return self.get(upload)

    def get(self, upload: str) -> Upload:
        found = self._database.rows("SELECT * FROM files WHERE upload = ? ORDER BY number", (upload,))
        if not found:
            raise UnknownError(f"there is no upload {upload!r}; it may have been deleted")
        pieces: dict[int, list[Chunk]] = {}
        for row in self._database.rows("SELECT * FROM chunks WHERE upload = ? ORDER BY number, start", (upload,)):
            pieces.setdefault(row["number"], []).append(Chunk(row["start"], row["size"], row["digest"]))
        return Upload(
            upload,
            tuple(
                UploadFile(row["number"], row["name"], row["size"], row["have"], tuple(pieces.get(row["number"], ())))
                for row in found
            ),
        )

    def have(self, upload: str) -> Arrived | None:
        """Return the bytes received of an upload; None if there is no such upload."""
        found = self._database.rows(
            "SELECT sum(have) AS have, sum(size) AS size FROM files WHERE upload = ? GROUP BY upload", (upload,)
        )
        return Arrived(found[0]["have"], found[0]["size"]) if found else None

    def digests(self, upload: str) -> list[tuple[int, str]]:
        """The pieces of all files in order: uploads that have the same hold the same bytes."""
        rows = self._database.rows("SELECT size, digest FROM chunks WHERE upload = ? ORDER BY number, start", (upload,))
        return [(row["size"], row["digest"]) for row in rows]

    def ids(self) -> list[str]:
        return [row["id"] for row in self._database.rows("SELECT id FROM uploads")]

    def put(self, upload: str, number: int, offset: int, data: bytes, digest: str) -> int:
        """Add a piece at the end of a file; returns how much of the file is here now."""
        found = self._database.rows("SELECT * FROM files WHERE upload = ? AND number = ?", (upload, number))
        if not found:
            raise UnknownError(f"there is no file {number} in an upload {upload!r}; it may have been deleted")
        have, size = found[0]["have"], found[0]["size"]
        if offset != have:
            raise OffsetError(have, offset)
        if hashlib.sha256(data).hexdigest() != digest.lower():
            raise DigestError("the piece does not have the SHA-256 that X-Digest says; send it again")
        if have + len(data) > size:
            raise UsageError(f"the piece ends at byte {have + len(data):,}, but the file was said to have {size:,}")
        if not data:
            return int(have)
        self._write(self._home.upload(upload, number), have, data)
        with self._database.transaction():
            moved = self._database.change(
                "UPDATE files SET have = ? WHERE upload = ? AND number = ? AND have = ?",
                (have + len(data), upload, number, have),
            )
            if moved:
                self._database.change(
                    "INSERT INTO chunks VALUES (?, ?, ?, ?, ?)", (upload, number, have, len(data), digest.lower())
                )
        if not moved:
            raise OffsetError(self.get(upload).files[number].have, offset)
        return int(have + len(data))

    def find(self, files: Sequence[tuple[str, int]], digests: Sequence[Sequence[str]]) -> Upload | None:
        """An upload of these names and sizes of which every piece that is here has the digest the caller knows.

        digests: of the pieces of each file, from its start on; a complete upload is found only by all of them
        """
        names = [name for name, _ in files]
        if not names or len(digests) != len(names):
            return None
        for row in self._database.rows(
            "SELECT upload FROM files JOIN uploads ON uploads.id = upload WHERE number = 0 AND name = ? AND size = ? "
            "ORDER BY created DESC, upload",
            files[0],
        ):
            upload = self.get(row["upload"])
            if [(file.name, file.size) for file in upload.files] == list(files) and _agrees(upload, digests):
                return upload
        return None

    def delete(self, upload: str) -> None:
        try:
            self._database.change("DELETE FROM uploads WHERE id = ?", (upload,))
        except StoreError:  # a full disk: room comes first
            self.drop_data(upload)
            self._database.change("DELETE FROM uploads WHERE id = ?", (upload,))
        self.drop_data(upload)

    def drop_data(self, upload: str) -> None:
        shutil.rmtree(self._home.uploads / upload, ignore_errors=True)

    def size(self) -> int:
        """Bytes of all uploads together."""
        return int(self._database.rows("SELECT coalesce(sum(have), 0) FROM files")[0][0])

    def _write(self, path: Path, offset: int, data: bytes) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("r+b" if path.exists() else "x+b") as file:
                file.seek(offset)
                file.write(data)
                file.truncate()
        except OSError as error:
            with suppress(OSError):  # half a piece is of no use, and its room may be needed to delete something
                os.truncate(path, offset)
            raise _unwritable(error, self._home.path) from error

    def _make_room(self, needed: int) -> None:
        self._home.uploads.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self._home.uploads).free
        if needed > free:
            raise WriteError(
                f"the upload has {needed:,} bytes, but {self._home.path} has room for {free:,}; "
                "delete comparisons, make room, or give the path of the files instead"
            )


def _check(files: Sequence[tuple[str, int]]) -> None:
    if not files:
        raise UsageError("the upload names no file; choose at least one")
    if len(files) > MAX_FILES:
        raise UsageError(f"the upload has {len(files):,} files, and {MAX_FILES:,} are the most; pack them into a zip")
    for name, size in files:
        if not name or len(name) > _MAX_NAME or size < 0:
            raise UsageError(f"the upload has a file of the name {name[:80]!r} and {size} bytes, which cannot be")


def _agrees(upload: Upload, digests: Sequence[Sequence[str]]) -> bool:
    """An unfinished one needs only the first pieces to agree: whoever goes on with it checks the others."""
    for file, known in zip(upload.files, digests, strict=True):
        here = [chunk.digest for chunk in file.chunks]
        if not file.size:
            continue
        if upload.complete and list(known) != here:
            return False
        shared = min(len(here), len(known))
        if list(known[:shared]) != here[:shared] or (here and not known):
            return False
    return True


def _unwritable(error: OSError, home: Path) -> WriteError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return WriteError(f"the disk of {home} is full; delete comparisons or make room, and the upload goes on")
    return WriteError(f"cannot write to {home} ({error.strerror or error})")
