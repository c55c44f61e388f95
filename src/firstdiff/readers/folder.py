"""A folder on disk as a tree."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from firstdiff.errors import ReadError
from firstdiff.readers.blob import Extent, StoredBlob
from firstdiff.readers.tree import Refusal, Tree, is_junk


def open_folder(path: Path) -> Tree:
    """Every plain file below a folder. Links to files are followed; links to folders are not, and are named."""
    blobs: list[StoredBlob] = []
    refusals: list[Refusal] = []
    warnings: list[str] = []
    root = str(path)
    for entry in _files_below(root, warnings):
        name = _readable(entry.path[len(root) :].replace(os.sep, "/").lstrip("/"))
        if is_junk(name):
            continue
        try:
            status = entry.stat()
        except OSError:
            refusals.append(Refusal(name, ReadError("is a link that leads nowhere")))
            continue
        if not entry.is_file():
            refusals.append(Refusal(name, ReadError("is not a plain file")))
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
