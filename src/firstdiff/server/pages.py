"""Serve the built page: its files, and its index for the page's own paths."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, PlainTextResponse
from starlette.exceptions import HTTPException

STATIC = Path(__file__).parent / "static"
_KEPT = "public, max-age=31536000, immutable"  # the names of built files hold their digest
_NOT_BUILT = (
    "The page is not built in this checkout. Run `make run`, or `pip install .`, which build it, and start the server "
    "again.\n"
)


def add_pages(app: FastAPI) -> None:
    """Serve the page at every path outside /api."""

    @app.api_route("/{path:path}", methods=["GET", "HEAD"], include_in_schema=False)
    def page(path: str, request: Request) -> Response:
        if path == "api" or path.startswith("api/"):
            raise HTTPException(404, f"there is no {request.method} {request.url.path}")
        file = _file(path)
        if file is not None:
            kept = _KEPT if path.startswith("assets/") else "no-cache"
            return FileResponse(file, headers={"Cache-Control": kept})
        index = STATIC / "index.html"
        if not index.is_file():
            return PlainTextResponse(_NOT_BUILT, 503)
        if "." in path.rpartition("/")[2] and path.startswith("assets/"):
            raise HTTPException(404, f"the page has no file {path}")
        return FileResponse(index, headers={"Cache-Control": "no-cache"}, media_type="text/html")


def _file(path: str) -> Path | None:
    """The file of that name within the page, and nothing outside of it."""
    if not path or "\0" in path:
        return None
    file = (STATIC / path).resolve()
    return file if file.is_relative_to(STATIC.resolve()) and file.is_file() else None
