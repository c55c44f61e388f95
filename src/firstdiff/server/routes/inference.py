"""Routes: models that run in the page's own browser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from firstdiff.server.context import Context, Shared
from firstdiff.server.inference.inputs import inputs_from_file, made_inputs
from firstdiff.server.inference.models import CLOSED, BrowserModel, BrowserRun
from firstdiff.server.inference.table import build_table
from firstdiff.server.inference.wire import (
    FailedIn,
    InputsIn,
    LogIn,
    LogOut,
    ModelIn,
    ModelOut,
    RunIn,
    RunOut,
    TableOut,
    TorchIn,
    pack_part,
    unpack_tensors,
)
from firstdiff.server.responses import ConflictError, ForbiddenError, TooLargeError, answer, download, raw
from firstdiff.server.submit import given_path
from firstdiff.store.uploads import UnknownError

router = APIRouter(prefix="/inference")
MAX_MESSAGE = 1 << 30
_LOOK_EVERY = 0.25
_GRACE = 5.0  # seconds; browsers connect again after three
_BINARY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.post("/models", response_model=ModelOut)
def open_browser_model(body: ModelIn, context: Shared, request: Request) -> Response:
    _own_page(request)
    if body.upload is not None:
        found = context.inference.open(Path(), _uploaded(context, body.upload))
    elif body.url is not None:
        found = context.inference.open(Path(), url=body.url)
    else:
        found = context.inference.open(_path(body.path, "model"))
    return answer(found.out())


@router.get("/models/{model}", response_model=ModelOut)
def get_browser_model(model: str, context: Shared, request: Request) -> Response:
    _own_page(request)
    return answer(context.inference.get(model).out())


@router.get("/models/{model}/files/{index}", response_class=Response)
def get_model_file(model: str, index: int, context: Shared, request: Request) -> Response:
    _own_page(request)
    files = context.inference.get(model).files
    if not 0 <= index < len(files):
        raise UnknownError(f"the model has no file {index}")
    headers = {"Cache-Control": "no-cache"}  # the browser asks whether what it has is still the file on disk
    return FileResponse(files[index], media_type="application/octet-stream", headers=headers)


@router.post("/models/{model}/inputs", response_model=ModelOut)
def set_model_inputs(model: str, body: InputsIn, context: Shared, request: Request) -> Response:
    _own_page(request)
    found = context.inference.get(model)
    if body.kind != "file":
        arrays = made_inputs(found.model, body, found.vocabulary)
    elif body.upload is not None:
        arrays = inputs_from_file(found.model, next(iter(_uploaded(context, body.upload).values())))
    else:
        arrays = inputs_from_file(found.model, _path(body.path, "file of inputs"))
    found.set_inputs(arrays)
    return answer(found.out())


@router.get("/models/{model}/inputs/{index}", response_class=Response)
def get_model_input(model: str, index: int, context: Shared, request: Request) -> Response:
    _own_page(request)
    arrays = list(context.inference.get(model).inputs.values())
    if not 0 <= index < len(arrays):
        raise UnknownError(f"the model was given no input {index}")
    return raw(arrays[index], arrays[index].dtype.name)


@router.post("/models/{model}/python", response_model=ModelOut)
def run_in_python(model: str, context: Shared, request: Request) -> Response:
    _own_page(request)
    found = context.inference.get(model)
    found.run_python()
    return answer(found.out())


@router.post("/models/{model}/torch", response_model=ModelOut)
def set_torch_trace(model: str, body: TorchIn, context: Shared, request: Request) -> Response:
    _own_page(request)
    found = context.inference.get(model)
    found.torch = _path(body.path, "torch trace") if body.path else None
    return answer(found.out())


@router.post("/models/{model}/runs", response_model=RunOut)
def start_browser_run(model: str, body: RunIn, context: Shared, request: Request) -> Response:
    _own_page(request)
    run = context.inference.get(model).start_run(body.provider, body.optimize, body.agent)
    return answer(run.out())


@router.get("/models/{model}/runs/{run}", response_model=RunOut)
def get_browser_run(model: str, run: str, context: Shared, request: Request) -> Response:
    _own_page(request)
    return answer(context.inference.get(model).run(run).out())


@router.get("/models/{model}/runs/{run}/watch", response_class=Response)
def watch_browser_run(model: str, run: str, context: Shared, request: Request) -> Response:
    """The tab that runs it keeps this open: when it goes, with or without a word, the run is over."""
    _own_page(request)
    found = context.inference.get(model).run(run)
    headers = {"Cache-Control": "no-store"}
    return StreamingResponse(_until_over(found, context), media_type="text/event-stream", headers=headers)


@router.get("/models/{model}/runs/{run}/part", response_class=Response)
def get_model_part(model: str, run: str, context: Shared, request: Request) -> Response:
    _own_page(request)
    part = context.inference.get(model).run(run).next_part()
    if part is None:
        return Response(status_code=204)
    return Response(pack_part(part), media_type="application/octet-stream", headers={"Cache-Control": "no-store"})


@router.post("/models/{model}/runs/{run}/part", status_code=204, response_class=Response, openapi_extra=_BINARY)
async def put_part_values(model: str, run: str, context: Shared, request: Request) -> Response:
    _own_page(request)
    found = context.inference.get(model).run(run)
    sets, kinds = unpack_tensors(await _body(request))
    await run_in_threadpool(found.take, sets.get("values", {}), kinds)
    return Response(status_code=204)


@router.post("/models/{model}/runs/{run}/finish", response_model=RunOut, openapi_extra=_BINARY)
async def finish_browser_run(model: str, run: str, context: Shared, request: Request) -> Response:
    _own_page(request)
    opened = context.inference.get(model)
    found = opened.run(run)
    sets, _ = unpack_tensors(await _body(request))
    await run_in_threadpool(found.finish, sets.get("optimized", {}), sets.get("plain", {}), _python(opened))
    return answer(found.out())


@router.post("/models/{model}/runs/{run}/fail", response_model=RunOut)
def fail_browser_run(model: str, run: str, body: FailedIn, context: Shared, request: Request) -> Response:
    _own_page(request)
    found = context.inference.get(model).run(run)
    found.fail(body.message, own=body.own)
    return answer(found.out())


@router.post("/models/{model}/runs/{run}/close", status_code=204, response_class=Response)
def close_browser_run(model: str, run: str, context: Shared, request: Request) -> Response:
    """The tab that ran it is gone; a run that is over stays what it is."""
    _own_page(request)
    context.inference.get(model).run(run).fail(CLOSED, own=True)
    return Response(status_code=204)


@router.get("/models/{model}/runs/{run}/table", response_model=TableOut)
def get_run_table(model: str, run: str, context: Shared, request: Request, other: str | None = None) -> Response:
    _own_page(request)
    opened = context.inference.get(model)
    found = opened.run(run)
    if found.state != "done":
        raise ConflictError(f"this run has no table; {found.error or 'it still runs'}")
    beside = opened.run(other).path if other else None
    return answer(build_table(opened.model, found.path, _python(opened), opened.torch, beside))


@router.post("/log", response_model=LogOut)
def add_to_log(body: LogIn, context: Shared, request: Request) -> Response:
    _own_page(request)
    with context.inference.log.open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in body.lines)
    return answer(_log(context))


@router.get("/log", response_class=Response)
def get_log(context: Shared, request: Request) -> Response:
    _own_page(request)
    file = context.inference.log
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return download(text, file.name, "text/plain")


@router.delete("/log", response_model=LogOut)
def clear_log(context: Shared, request: Request) -> Response:
    _own_page(request)
    context.inference.log.unlink(missing_ok=True)
    return answer(_log(context))


async def _until_over(run: BrowserRun, context: Context) -> AsyncIterator[str]:
    run.watch()
    try:
        while run.state == "running" and not context.jobs.closing:
            yield ": still here\n\n"
            await asyncio.sleep(_LOOK_EVERY)
    finally:
        run.unwatch()
        # a tab that only lost the connection opens another one
        loop = asyncio.get_running_loop()
        loop.call_later(_GRACE, lambda: loop.run_in_executor(None, run.fail_if_unwatched))


def _log(context: Context) -> LogOut:
    file = context.inference.log
    return LogOut(str(file), file.stat().st_size if file.exists() else 0)


def _python(opened: BrowserModel) -> Path | None:
    return Path(opened.python.path) if opened.python else None


def _own_page(request: Request) -> None:
    if request.scope.get("cross_origin", False):
        raise ForbiddenError("a page of another origin may not run models of this machine")


def _path(text: str | None, name: str) -> Path:
    return Path(given_path(text or "", name).path or "")


def _uploaded(context: Context, upload: str) -> dict[str, Path]:
    """Files of an upload by the last part of their names."""
    found = context.store.uploads.get(upload)
    if not found.complete:
        raise ConflictError("the upload is not complete; go on with it first")
    home = context.store.home
    return {file.name.replace("\\", "/").rpartition("/")[2]: home.upload(upload, file.index) for file in found.files}


async def _body(request: Request) -> bytes:
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > MAX_MESSAGE:
            raise TooLargeError(f"one message has at most {MAX_MESSAGE:,} bytes; take smaller inputs")
    return bytes(data)
