"""Routes of uploads."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from starlette.concurrency import run_in_threadpool

from firstdiff.errors import UsageError
from firstdiff.server.context import Shared
from firstdiff.server.responses import TooLargeError, answer
from firstdiff.server.schemas import FindIn, HaveOut, OffsetOut, UploadIn
from firstdiff.store import Entry
from firstdiff.store.uploads import Upload

router = APIRouter()
MAX_CHUNK = 64 << 20
_BINARY = {"type": "string", "format": "binary"}


@router.post("/uploads", response_model=Upload)
def begin_upload(body: UploadIn, context: Shared) -> Response:
    return answer(context.store.uploads.begin([(file.name, file.size) for file in body.files]))


@router.post("/uploads/find", response_model=Upload | None)
def find_upload(body: FindIn, context: Shared) -> Response:
    digests = body.digests if body.digests is not None else [[head] for head in body.head]
    return answer(context.store.uploads.find([(file.name, file.size) for file in body.files], digests))


@router.get("/uploads/{upload}", response_model=Upload)
def get_upload(upload: str, context: Shared) -> Response:
    return answer(context.store.uploads.get(upload))


@router.put(
    "/uploads/{upload}/files/{index}",
    response_model=HaveOut,
    responses={409: {"model": OffsetOut, "description": "The piece does not follow what is there."}},
    openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": _BINARY}}}},
)
async def put_piece(
    upload: str, index: int, context: Shared, request: Request, offset: int, x_digest: Annotated[str, Header()]
) -> Response:
    data = await _body(request)
    have = await run_in_threadpool(context.store.uploads.put, upload, index, offset, data, x_digest)
    return answer(HaveOut(have))


@router.delete("/uploads/{upload}", status_code=204, response_class=Response)
def delete_upload(upload: str, context: Shared) -> Response:
    context.store.uploads.get(upload)
    users = [entry.name for entry in context.store.entries() if upload in _uploads_of(entry)]
    if users:
        raise UsageError(f"the upload belongs to the comparison {users[0]!r}; delete that instead")
    context.store.uploads.delete(upload)
    return Response(status_code=204)


def _uploads_of(entry: Entry) -> set[str | None]:
    return {side.upload for side in (entry.reference, entry.candidate, entry.third) if side}


async def _body(request: Request) -> bytes:
    """Read a piece into memory, up to the size of one."""
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > MAX_CHUNK:
            raise TooLargeError(f"a piece has at most {MAX_CHUNK:,} bytes; send it in smaller ones")
    return bytes(data)
