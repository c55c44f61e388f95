"""Stop reading tensors once the client has disconnected."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Annotated, final

import numpy as np
from fastapi import Depends, Request

from firstdiff.server.responses import ClientDisconnectedError
from firstdiff.trace import Index, Source


async def _gone(request: Request) -> AsyncIterator[threading.Event]:
    gone = threading.Event()

    async def listen() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone.set()

    listening = asyncio.create_task(listen())
    try:
        yield gone
    finally:
        listening.cancel()


def must_be_wanted(gone: threading.Event) -> None:
    """Raise GaveUpError if the client disconnected while its request was queued."""
    if gone.is_set():
        raise ClientDisconnectedError("the client closed the connection")


# set once the client has disconnected
Gone = Annotated[threading.Event, Depends(_gone)]


@final
class CancellableSource(Source):
    """A source whose reads raise GaveUpError once the client has disconnected, which ends long work."""

    def __init__(self, source: Source, gone: threading.Event) -> None:
        self._source = source
        self._gone = gone
        self.shape = source.shape
        self.dtype = source.dtype

    def view(self) -> np.ndarray:
        return self._wanted().view()

    def read(self, index: Index = ...) -> np.ndarray:
        return self._wanted().read(index)

    def window(self, start: int, stop: int) -> np.ndarray:
        return self._wanted().window(start, stop)

    def stamp(self) -> object:
        return self._source.stamp()

    def _wanted(self) -> Source:
        must_be_wanted(self._gone)
        return self._source
