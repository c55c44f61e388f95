"""The application: routes, guards, and the files of the page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import FileResponse, PlainTextResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from firstdiff import __version__
from firstdiff.server.context import Context
from firstdiff.server.guard import Guard
from firstdiff.server.responses import ERRORS, add_error_handlers
from firstdiff.server.routes import (
    audio,
    comparisons,
    edits,
    events,
    inference,
    project,
    reports,
    rows,
    uploads,
    values,
)

STATIC = Path(__file__).parent / "static"
_KEPT = "public, max-age=31536000, immutable"  # names of built files contain their digest
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
    """Return the file of that name within the page; nothing outside of it."""
    if not path or "\0" in path:
        return None
    file = (STATIC / path).resolve()
    return file if file.is_relative_to(STATIC.resolve()) and file.is_file() else None


_ROUTERS = (comparisons, rows, values, audio, edits, reports, uploads, events, inference, project)


def create_app(context: Context | None = None) -> FastAPI:
    """Build the application; without a context it only describes its routes."""
    app = FastAPI(
        title="firstdiff",
        version=__version__,
        docs_url=None,  # the documentation pages load scripts from other hosts
        redoc_url=None,
        openapi_url=None,
        separate_input_output_schemas=False,
        lifespan=_lifespan,
        responses=ERRORS,
        generate_unique_id_function=_operation,
    )
    api = APIRouter(prefix="/api")
    for module in _ROUTERS:
        api.include_router(module.router)
    app.include_router(api)
    add_error_handlers(app)
    add_pages(app)
    if context is not None:
        app.state.context = context
        app.add_middleware(Guard, settings=context.settings)
    return app


def _operation(route: APIRoute) -> str:
    return route.name


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    context: Context = app.state.context
    context.jobs.start()
    try:
        yield
    finally:
        context.jobs.close()
