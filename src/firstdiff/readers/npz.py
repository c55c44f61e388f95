""".npz: a zip of .npy members, each under its key."""

from __future__ import annotations

from firstdiff.errors import ReadError
from firstdiff.readers.archive import archive_kind, open_archive
from firstdiff.readers.blob import Blob
from firstdiff.readers.format import Format, Found
from firstdiff.readers.npy import open_array, read_header


def _open(blob: Blob) -> list[Found]:
    tree = open_archive(blob, "zip")
    found = [_member(member) for member in tree.blobs]
    return found + [Found(refusal.name.removesuffix(".npy"), refusal.error) for refusal in tree.refusals]


def _member(blob: Blob) -> Found:
    name = blob.name.removesuffix(".npy")
    try:
        return Found(name, open_array(blob, read_header(blob)))
    except ReadError as error:
        return Found(name, error.named(blob.label))


def _sniff(blob: Blob) -> bool:
    return blob.suffix == ".npz" and archive_kind(blob) == "zip"


FORMAT = Format("npz", (".npz",), _sniff, _open)
