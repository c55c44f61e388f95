"""Responses of the server: valid JSON, and errors of one sentence with their status codes."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from firstdiff.errors import FirstdiffError, ReadError, UsageError, WriteError
from firstdiff.json_text import to_json
from firstdiff.server.wire import ErrorOut, OffsetOut
from firstdiff.store import StoreError
from firstdiff.store.results import GoneError
from firstdiff.store.uploads import DigestError, OffsetError, UnknownError

_JSON = "application/json"


class ConflictError(FirstdiffError):
    """Not now: something has to be finished, or has changed, first."""


class TooLargeError(FirstdiffError):
    """More than one answer may hold."""


class GaveUpError(FirstdiffError):
    """The client closed the connection."""


class ForbiddenError(FirstdiffError):
    """The request is not allowed for pages of other origins."""


# the first that an error is an instance of
_CODES: tuple[tuple[type[FirstdiffError], int], ...] = (
    (UnknownError, 404),
    (OffsetError, 409),
    (ConflictError, 409),
    (GoneError, 410),
    (ReadError, 409),
    (TooLargeError, 413),
    (GaveUpError, 499),
    (DigestError, 422),
    (ForbiddenError, 403),
    (UsageError, 400),
    (WriteError, 507),
    (StoreError, 500),
)

ERRORS: dict[int | str, dict[str, Any]] = {"default": {"model": ErrorOut, "description": "One sentence."}}


def answer(value: Any, status: int = 200) -> Response:
    """Anything of `firstdiff.schema` or `wire` as JSON."""
    return Response(to_json(value), status, media_type=_JSON)


def answer_text(text: bytes) -> Response:
    """JSON that is written already."""
    return Response(text, media_type=_JSON)


def download(text: str | bytes, name: str, media_type: str) -> Response:
    """A file to keep; never shown as a page of this server."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type=media_type, headers=headers)


def add_error_answers(app: FastAPI) -> None:
    """Every error leaves as {"error": …}."""
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
