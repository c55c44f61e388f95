"""Open anything that holds tensors: files, folders, archives, traces."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from firstdiff.errors import ReadError, did_you_mean
from firstdiff.readers.archive import archive_kind, open_archive
from firstdiff.readers.blob import Blob, Extent, StoredBlob, file_blob
from firstdiff.readers.format import Progress, format_of, open_plain, open_single
from firstdiff.readers.recorded import is_recorded, open_recorded
from firstdiff.readers.tree import RejectedMember, Tree, is_junk, open_folder, safe_name
from firstdiff.trace import Trace
from firstdiff.trace.order import OrderRule

__all__ = ["Progress", "open_files", "open_trace"]


def open_trace(
    path: str | os.PathLike[str], *, order: OrderRule | None = None, progress: Progress | None = None
) -> Trace:
    """Open a trace folder, an archive of one, a folder or archive of tensor files, or a single tensor file.

    Names, shapes and dtypes are known on return; values are read when they are asked for.

    path: what to open
    order: the rule that orders plain files, instead of the one their names suggest
    progress: called with (files done, files in all)
    """
    where = Path(path)
    try:
        if not where.exists():
            raise _missing(where)
        if where.is_dir():
            return _open_tree(open_folder(where), order, progress)
        if not where.is_file():
            raise ReadError("is neither a file nor a folder")
        return _open_blob(file_blob(where), order, progress)
    except ReadError as error:
        raise error.named(str(where)) from error
    except PermissionError as error:
        raise ReadError("may not be read; check its permissions", str(where)) from error


def open_files(
    label: str, files: Sequence[tuple[str, Path]], *, order: OrderRule | None = None, progress: Progress | None = None
) -> Trace:
    """The same for files that lie on disk under other names than their own.

    label: what messages call them together
    files: each file's own name, with `/` between folders, and where it is
    """
    blobs: list[Blob] = []
    refusals: list[RejectedMember] = []
    for name, path in files:
        plain = name.replace("\\", "/")
        try:
            safe = safe_name(plain)
            blobs.append(StoredBlob(safe, safe, Extent(str(path), 0, file_blob(path).size)))
        except ReadError as error:
            refusals.append(RejectedMember(plain, type(error)(error.finding)))
    try:
        if len(files) == 1 and blobs:
            return _open_blob(blobs[0], order, progress)
        wanted = tuple(blob for blob in blobs if not is_junk(blob.name))
        return _open_tree(Tree(label, wanted, tuple(refusals)).drop_duplicate_names(), order, progress)
    except ReadError as error:
        raise error.named(label) from error


def _open_blob(blob: Blob, order: OrderRule | None, progress: Progress | None) -> Trace:
    if blob.size == 0:
        raise ReadError("is empty")
    kind = archive_kind(blob)
    if kind is None or (kind == "zip" and format_of(blob, []) is not None):
        return open_single(blob)
    return _open_tree(open_archive(blob, kind), order, progress)


def _open_tree(tree: Tree, order: OrderRule | None, progress: Progress | None) -> Trace:
    if is_recorded(tree):
        return open_recorded(tree)
    trace = open_plain(tree, order, progress)
    if not trace.tensors:
        raise ReadError("holds no tensors" + "".join(f"; {warning}" for warning in trace.warnings))
    return trace


def _missing(path: Path) -> ReadError:
    try:
        beside = [entry.name for entry in path.absolute().parent.iterdir()]
    except OSError:
        return ReadError(f"does not exist, and neither does the folder {path.parent}", str(path))
    return ReadError(f"does not exist{did_you_mean(path.name, beside)}", str(path))
