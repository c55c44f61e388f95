"""Routes: the project that the server was started in, and the comparison of its latest validation."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from firstdiff.errors import UsageError
from firstdiff.server.context import Shared
from firstdiff.server.project_view import ProjectAnswer, options_of, project_view, sides_of
from firstdiff.server.responses import ForbiddenError, answer
from firstdiff.server.schemas import ProjectCompareIn
from firstdiff.server.submit import start_paths
from firstdiff.store import Entry

router = APIRouter()


@router.get("/project", response_model=ProjectAnswer)
def get_project(context: Shared) -> Response:
    path = context.settings.project
    return answer(ProjectAnswer(None if path is None else project_view(path)))


@router.post("/project/comparison", response_model=Entry)
def compare_project(body: ProjectCompareIn, context: Shared, request: Request) -> Response:
    path = context.settings.project
    if request.scope.get("cross_origin", False):
        raise ForbiddenError("a page of another origin may not read the project")
    if path is None:
        raise UsageError("there is no project; start `firstdiff serve` in a folder with a firstdiff.toml")
    started = start_paths(context, *sides_of(path, body.input_set), options=options_of(path))
    return answer(context.store.entry(started))
