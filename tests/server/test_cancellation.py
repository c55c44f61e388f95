from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.requests import Request

from firstdiff.server.cancellation import CancellableSource, _gone
from firstdiff.server.responses import ClientDisconnectedError
from firstdiff.server.row_tensors import RowTensors
from firstdiff.trace import ArraySource
from firstdiff.viewing import Cut, overview
from tests.event_loop import in_own_loop
from tests.server.conftest import Page, write_folder


def heard(*messages: str) -> bool:
    """True if a request that received these messages counts as disconnected."""

    async def ask() -> bool:
        coming = list(messages)

        async def receive() -> dict[str, Any]:
            if not coming:
                await asyncio.Event().wait()
            return {"type": coming.pop(0)}

        found = _gone(Request({"type": "http"}, receive))
        gone = await anext(found)
        for _ in range(5):
            await asyncio.sleep(0)
        await found.aclose()
        return gone.is_set()

    return in_own_loop(ask())


def test_a_closed_connection_is_noticed_and_an_open_one_is_not() -> None:
    assert heard("http.request", "http.disconnect")
    assert not heard("http.request")


def test_work_for_nobody_ends_at_the_next_part_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["firstdiff.viewing.overview"], "_BAND", 10)
    gone, read = threading.Event(), []

    class Slow(ArraySource):  # type: ignore[misc]
        def window(self, start: int, stop: int) -> np.ndarray:
            read.append(start)
            if len(read) == 3:
                gone.set()
            return super().window(start, stop)

    with pytest.raises(ClientDisconnectedError):
        overview((CancellableSource(Slow(np.ones((50, 10))), gone),), Cut.whole((50, 10)), 5, 5)
    assert read == [0, 10, 20]


def readings(seen: RowTensors) -> Sequence[Any]:
    return (
        lambda: seen.both()[0].window(0, 1),
        lambda: seen.source("candidate", "aligned").read(),
        lambda: seen.original("reference").view(),
        lambda: seen.source("third", "aligned").window(0, 1),
    )


def test_no_side_of_a_row_is_read_for_nobody(page: Page, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "r", x=np.ones(3, np.float32))
    comparison = page.compare(folder, folder, third={"path": str(folder)})["id"]
    gone = threading.Event()
    for read in readings(RowTensors(page.context, comparison, 0, gone)):
        assert np.all(read() == 1)
    gone.set()
    for read in readings(RowTensors(page.context, comparison, 0, gone)):
        with pytest.raises(ClientDisconnectedError):
            read()
