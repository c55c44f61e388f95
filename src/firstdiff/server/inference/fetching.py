"""Fetch a model by its address, with the files of its weights, its metadata and its vocabulary from beside it."""

from __future__ import annotations

import shutil
import urllib.error
import urllib.request
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from firstdiff.capturing.onnx_file import external_locations
from firstdiff.errors import ReadError, UsageError
from firstdiff.server.inference.described import METADATA, VOCABULARIES

SCHEMES = ("http", "https")
_TIMEOUT_S = 30.0
_NOT_THERE = (403, 404, 410)


class _SameSchemes(urllib.request.HTTPRedirectHandler):
    """Follows redirects to web addresses alone, never to files of this machine."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        _check(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def fetch_model(url: str, folder: Path) -> Path:
    """Download a model and what lies beside it into a folder, and return the model's path there."""
    _check(url)
    name = _plain_name(unquote(urlsplit(url).path)) or "model.onnx"
    model = folder / (name if name.endswith(".onnx") else f"{name}.onnx")
    _download(url, model)
    for location in external_locations(model):
        if _plain_name(location) != location:
            raise ReadError(f"its weights are in {location!r}; only files beside the model are fetched", url)
        _download(urljoin(url, quote(location)), folder / location)
    for beside in (METADATA, *VOCABULARIES):
        _download(urljoin(url, beside), folder / beside, optional=True)
    return model


def _download(url: str, file: Path, *, optional: bool = False) -> None:
    opener = urllib.request.build_opener(_SameSchemes)
    try:
        with opener.open(url, timeout=_TIMEOUT_S) as answer, file.open("wb") as kept:
            shutil.copyfileobj(answer, kept, 1 << 20)
    except urllib.error.HTTPError as error:
        if optional and error.code in _NOT_THERE:
            return
        raise ReadError(f"cannot be fetched (the server answers {error.code} {error.reason})", url) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise ReadError(f"cannot be fetched ({reason}); download it and give the file", url) from error


def _check(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise UsageError(
            f"{url[:200]} is no address that models are fetched from; it must begin with https:// or http://"
        )


def _plain_name(path: str) -> str:
    name = PurePosixPath(path).name
    return "" if name in (".", "..") or "\\" in name or "\0" in name else name
