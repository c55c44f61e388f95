"""Folders as traces: members, names and rejected files."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from firstdiff.errors import ReadError, RefusedError
from firstdiff.readers.blob import Blob, Extent, StoredBlob

_JUNK_FILES = {"thumbs.db", "desktop.ini"}
_JUNK_FOLDERS = {"__MACOSX", "__pycache__"}
_DRIVE = re.compile(r"[A-Za-z]:")


class RejectedMember(NamedTuple):
    """A member that is there and will not be read."""

    name: str
    error: ReadError


class Tree(NamedTuple):
    label: str
    blobs: tuple[Blob, ...]
    refusals: tuple[RejectedMember, ...] = ()
    warnings: tuple[str, ...] = ()

    def drop_duplicate_names(self) -> Tree:
        """A name that stands for two members stands for neither."""
        counts = Counter(blob.name for blob in self.blobs)
        twins = [name for name, count in counts.items() if count > 1]
        refusals = [RejectedMember(name, RefusedError(f"is in the archive {counts[name]} times")) for name in twins]
        blobs = tuple(blob for blob in self.blobs if counts[blob.name] == 1)
        return self._replace(blobs=blobs, refusals=(*self.refusals, *refusals))


def is_junk(name: str) -> bool:
    """Files that systems leave behind, and hidden ones: nobody's tensors."""
    *folders, file = name.split("/")
    hidden = any(part.startswith(".") and part not in (".", "..") for part in (*folders, file))
    return hidden or file.lower() in _JUNK_FILES or not _JUNK_FOLDERS.isdisjoint(folders)


def safe_name(name: str, mode: int = 0) -> str:
    """A member's name without `./`; RefusedError for one that points out of its archive or is no plain file.

    mode: the Unix type bits, 0 where the archive does not say
    """
    kind = stat.S_IFMT(mode)
    if kind and kind != stat.S_IFREG:
        raise RefusedError(f"is a {_KINDS.get(kind, 'special file')}, not a plain file")
    if name.startswith("/") or _DRIVE.match(name):
        raise RefusedError("has an absolute name")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise RefusedError("points out of its archive")
    if not parts:
        raise RefusedError("has no name")
    return "/".join(parts)


_KINDS = {
    stat.S_IFLNK: "link",
    stat.S_IFBLK: "device",
    stat.S_IFCHR: "device",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
}


def printable(names: Iterable[str], most: int = 3) -> str:
    """The first few names, and how many more there are."""
    shown = list(names)
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


def open_folder(path: Path) -> Tree:
    """Every plain file below a folder. Links to files are followed; links to folders are not, and are named."""
    blobs: list[StoredBlob] = []
    refusals: list[RejectedMember] = []
    warnings: list[str] = []
    root = str(path)
    for entry in _files_below(root, warnings):
        name = _readable(entry.path[len(root) :].replace(os.sep, "/").lstrip("/"))
        if is_junk(name):
            continue
        try:
            status = entry.stat()
        except OSError:
            refusals.append(RejectedMember(name, ReadError("is a link that leads nowhere")))
            continue
        if not entry.is_file():
            refusals.append(RejectedMember(name, ReadError("is not a plain file")))
            continue
        blobs.append(StoredBlob(name, entry.path, Extent(entry.path, 0, status.st_size)))
    return Tree(root, tuple(blobs), tuple(refusals), tuple(warnings))


def _files_below(folder: str, warnings: list[str]) -> Iterator[os.DirEntry[str]]:
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        try:
            entries = sorted(os.scandir(here), key=lambda entry: entry.name)
        except OSError as error:
            if here == folder:
                raise ReadError("may not be read; check its permissions", folder) from error
            warnings.append(f"{here} may not be read ({error.strerror}), so nothing in it was")
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif entry.is_symlink() and entry.is_dir():
                warnings.append(f"{entry.path} is a link to a folder and was not followed")
            else:
                yield entry


def _readable(name: str) -> str:
    """Names that are not valid text are shown with a mark in place of what cannot be."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
