"""Responses of the server: JSON, raw values with headers, exports and errors."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from firstdiff.errors import FirstdiffError, ReadError, UsageError, WriteError
from firstdiff.json_text import to_json
from firstdiff.reports.sentences import exact
from firstdiff.server.schemas import ErrorOut, OffsetOut
from firstdiff.store import StoreError
from firstdiff.store.results import GoneError
from firstdiff.store.uploads import DigestError, OffsetError, UnknownError

_JSON = "application/json"


class ConflictError(FirstdiffError):
    """Not now: something has to be finished, or has changed, first."""


class TooLargeError(FirstdiffError):
    """More than one answer may hold."""


class ClientDisconnectedError(FirstdiffError):
    """The client closed the connection."""


class ForbiddenError(FirstdiffError):
    """The request is not allowed for pages of other origins."""


# the first class that matches an error decides
_CODES: tuple[tuple[type[FirstdiffError], int], ...] = (
    (UnknownError, 404),
    (OffsetError, 409),
    (ConflictError, 409),
    (GoneError, 410),
    (ReadError, 409),
    (TooLargeError, 413),
    (ClientDisconnectedError, 499),
    (DigestError, 422),
    (ForbiddenError, 403),
    (UsageError, 400),
    (WriteError, 507),
    (StoreError, 500),
)

ERRORS: dict[int | str, dict[str, Any]] = {"default": {"model": ErrorOut, "description": "One sentence."}}


def answer(value: Any, status: int = 200) -> Response:
    """Return anything of `firstdiff.schema` or `schemas` as JSON."""
    return Response(to_json(value), status, media_type=_JSON)


def answer_text(text: bytes) -> Response:
    """Return JSON text as it is."""
    return Response(text, media_type=_JSON)


def download(text: str | bytes, name: str, media_type: str) -> Response:
    """Return a download, never shown as a page of this server."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type=media_type, headers=headers)


def add_error_handlers(app: FastAPI) -> None:
    """Register handlers that answer every error as {"error": …}."""
    app.add_exception_handler(FirstdiffError, _mendable)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(Exception, _failed)


def _mendable(_: Request, error: Exception) -> Response:
    if isinstance(error, OffsetError):
        return answer(OffsetOut(str(error), error.have), 409)
    code = next((code for kind, code in _CODES if isinstance(error, kind)), 400)
    return answer(ErrorOut(str(error)), code)


def _malformed(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    return answer(ErrorOut(f"the request does not fit: {where or 'its body'}: {first['msg'].lower()}"), 422)


def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return answer(ErrorOut(str(error.detail)), error.status_code)


def _failed(_: Request, error: Exception) -> Response:
    return answer(ErrorOut(f"the server failed inside ({type(error).__name__}: {error}); please report it"), 500)


class ResponseHeader(StrEnum):
    SHAPE = "X-Shape"
    DTYPE = "X-Dtype"
    MIN = "X-Min"
    MAX = "X-Max"
    NONFINITE = "X-Nonfinite"
    STAMP = "X-Stamp"
    SAMPLED = "X-Sampled"
    NOTE = "X-Note"


RAW = "application/octet-stream"


def raw(values: np.ndarray, dtype: str, headers: Mapping[ResponseHeader, str] | None = None) -> Response:
    """Return little-endian bytes in C order, with shape and dtype in the headers."""
    shape = ",".join(map(str, values.shape))
    sent: dict[str, str] = {ResponseHeader.SHAPE: shape, ResponseHeader.DTYPE: dtype, "Cache-Control": "no-store"}
    sent.update({str(name): value for name, value in (headers or {}).items()})
    return Response(little_endian(values), media_type=RAW, headers=sent)


def little_endian(values: np.ndarray) -> bytes:
    """Yield the elements in C order."""
    little = values.astype(values.dtype.newbyteorder("<"), copy=False) if values.dtype.byteorder == ">" else values
    return np.ascontiguousarray(little).tobytes()


def stamp_text(stamp: object) -> str:
    """Return a short hash of the stamp of a source."""
    return hashlib.sha256(repr(stamp).encode()).hexdigest()[:16]


def npy(values: np.ndarray) -> bytes:
    """Convert dtypes that numpy itself does not know to their raw bits."""
    file = io.BytesIO()
    known = values.view(f"u{values.dtype.itemsize}") if values.dtype.kind == "V" else values
    np.save(file, known, allow_pickle=False)
    return file.getvalue()


def csv_text(values: np.ndarray) -> str:
    """Yield one line of text for each run of the last dimension, with all digits."""
    rows = values.reshape(1, 1) if values.ndim == 0 else values.reshape(-1, max(1, values.shape[-1]))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    for row in rows:
        writer.writerow([exact(value) for value in row.tolist()])
    return file.getvalue()
