"""The ASGI application: routes, error handlers, guard and pages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from firstdiff import __version__
from firstdiff.server.answers import ERRORS, add_error_answers
from firstdiff.server.context import Context
from firstdiff.server.guard import Guard
from firstdiff.server.pages import add_pages
from firstdiff.server.routes import (
    about,
    comparisons,
    depth,
    editing,
    events,
    inference,
    inspecting,
    judging,
    listening,
    project,
    reporting,
    rows,
    uploading,
)

_ROUTERS = (
    about,
    comparisons,
    rows,
    inspecting,
    listening,
    depth,
    judging,
    editing,
    reporting,
    uploading,
    events,
    inference,
    project,
)


def create_app(context: Context | None = None) -> FastAPI:
    """The server's application; without a context only good for describing its routes."""
    app = FastAPI(
        title="firstdiff",
        version=__version__,
        docs_url=None,  # these pages load scripts from elsewhere
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
    add_error_answers(app)
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
