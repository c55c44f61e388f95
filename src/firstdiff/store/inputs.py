"""Open the inputs of a saved comparison."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from firstdiff.errors import ReadError
from firstdiff.readers import Progress, open_files, open_trace
from firstdiff.store.entry import Given
from firstdiff.trace import Trace
from firstdiff.trace.order import OrderRule

if TYPE_CHECKING:
    from firstdiff.store import Store

Files = list[tuple[str, str]]


def files_of(store: Store, given: Given) -> Files | None:
    """The names of an upload's files and where they lie; None for a path."""
    if given.upload is None:
        return None
    upload = store.uploads.get(given.upload)
    if not upload.complete:
        raise ReadError("has not arrived completely; go on with the upload first", given.label)
    return [(file.name, str(store.home.upload(upload.id, file.index))) for file in upload.files]


def open_side(store: Store, given: Given, order: OrderRule | None) -> Trace:
    return open_given(given, files_of(store, given), order)


def open_given(given: Given, files: Files | None, order: OrderRule | None, progress: Progress | None = None) -> Trace:
    """Open one side of a comparison; `files` is what `files_of` told, `order` the rule that was chosen for names."""
    if files is not None:
        return open_files(given.label, [(name, Path(path)) for name, path in files], order=order, progress=progress)
    return open_trace(given.path or "", order=order, progress=progress)
