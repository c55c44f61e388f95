"""Routes: server-sent events on the progress of comparisons and uploads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from firstdiff.json_text import to_json
from firstdiff.server.context import Context, Shared
from firstdiff.store import Entry
from firstdiff.store.uploads import UnknownError

router = APIRouter()
_LOOK_EVERY = 0.15
_QUIET_LOOKS = 100  # polls without news before a comment is sent, which keeps proxies and browsers connected
_STILL_HERE = ": still here\n\n"
_OVER = ("done", "failed", "cancelled")


@router.get(
    "/comparisons/{comparison}/events",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Events `state` and `progress`."}},
)
def follow_comparison(comparison: str, context: Shared, request: Request) -> Response:
    context.store.entry(comparison)
    return _stream(_events(context, comparison, request))


@router.get(
    "/uploads/{upload}/events",
    response_class=Response,
    responses={
        200: {"content": {"text/event-stream": {}}, "description": "Events `progress`: `have` of `size` bytes."}
    },
)
def follow_upload(upload: str, context: Shared, request: Request) -> Response:
    context.store.uploads.get(upload)
    return _stream(_arriving(context, upload, request))


def _stream(events: AsyncIterator[str]) -> Response:
    return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


async def _arriving(context: Context, upload: str, request: Request) -> AsyncIterator[str]:
    """Yield the bytes received of an upload until it is complete or discarded."""
    told, quiet = -1, 0
    while not await request.is_disconnected() and not context.jobs.closing:
        found = await run_in_threadpool(context.store.uploads.have, upload)
        if found is None:
            return
        if found.have != told:
            told, quiet = found.have, 0
            yield _event("progress", found)
            if found.have == found.size:
                return
        elif (quiet := quiet + 1) % _QUIET_LOOKS == 0:
            yield _STILL_HERE
        await asyncio.sleep(_LOOK_EVERY)


async def _events(context: Context, comparison: str, request: Request) -> AsyncIterator[str]:
    """Poll the store, so that any server may run the comparison."""
    state: tuple[str, str] | None = None
    progress = None
    quiet = 0
    while not await request.is_disconnected() and not context.jobs.closing:
        try:
            entry: Entry = await run_in_threadpool(context.store.entry, comparison)
        except UnknownError:  # deleted in the meantime
            return
        if (entry.state, entry.name) != state:
            state = entry.state, entry.name
            yield _event("state", entry)
            if entry.state in _OVER:
                return
        elif entry.progress and entry.progress != progress:
            progress, quiet = entry.progress, 0
            yield _event("progress", entry.progress)
        elif (quiet := quiet + 1) % _QUIET_LOOKS == 0:
            yield _STILL_HERE
        await asyncio.sleep(_LOOK_EVERY)


def _event(name: str, data: object) -> str:
    return f"event: {name}\ndata: {to_json(data)}\n\n"
