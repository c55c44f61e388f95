"""Export values: raw bytes for the page, files for download."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Mapping

import numpy as np
from fastapi import Response

from firstdiff.reports.sentences import exact
from firstdiff.server.headers import ResponseHeader

RAW = "application/octet-stream"


def raw(values: np.ndarray, dtype: str, headers: Mapping[ResponseHeader, str] | None = None) -> Response:
    """Little-endian bytes in C order; shape and type are in the headers."""
    shape = ",".join(map(str, values.shape))
    sent: dict[str, str] = {ResponseHeader.SHAPE: shape, ResponseHeader.DTYPE: dtype, "Cache-Control": "no-store"}
    sent.update({str(name): value for name, value in (headers or {}).items()})
    return Response(little_endian(values), media_type=RAW, headers=sent)


def little_endian(values: np.ndarray) -> bytes:
    """The elements in C order."""
    little = values.astype(values.dtype.newbyteorder("<"), copy=False) if values.dtype.byteorder == ">" else values
    return np.ascontiguousarray(little).tobytes()


def stamp_text(stamp: object) -> str:
    """A short text that changes when the stamp of a source does."""
    return hashlib.sha256(repr(stamp).encode()).hexdigest()[:16]


def npy(values: np.ndarray) -> bytes:
    """Types that plain numpy does not know go as their raw bits."""
    file = io.BytesIO()
    known = values.view(f"u{values.dtype.itemsize}") if values.dtype.kind == "V" else values
    np.save(file, known, allow_pickle=False)
    return file.getvalue()


def csv_text(values: np.ndarray) -> str:
    """One line for each run of the last dimension, every value with all its digits."""
    rows = values.reshape(1, 1) if values.ndim == 0 else values.reshape(-1, max(1, values.shape[-1]))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    for row in rows:
        writer.writerow([exact(value) for value in row.tolist()])
    return file.getvalue()
