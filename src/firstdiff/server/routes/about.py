"""Route: the server's version, store folder and demos."""

from __future__ import annotations

from fastapi import APIRouter, Response

from firstdiff import __version__
from firstdiff.server.answers import answer
from firstdiff.server.context import Shared
from firstdiff.server.wire import AboutOut
from firstdiff.workflows.demo import DEMOS

router = APIRouter()


@router.get("/about", response_model=AboutOut)
def about(context: Shared) -> Response:
    return answer(AboutOut(__version__, str(context.store.home.path), tuple(demo.name for demo in DEMOS)))
