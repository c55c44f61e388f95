from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import uvicorn

from firstdiff.server.app import create_app
from firstdiff.server.context import Context, ServerSettings
from firstdiff.server.jobs import Jobs
from firstdiff.store import Store

PIECE = 1 << 16


@dataclass
class Page:
    """A server, as a page sees it."""

    client: httpx.Client
    context: Context

    def get(self, path: str, **query: Any) -> Any:
        answer = self.client.get(f"/api{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None) -> Any:
        answer = self.client.post(f"/api{path}", json={} if body is None else body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def error(self, method: str, path: str, code: int, **request: Any) -> str:
        """The sentence of a request that must fail with that code."""
        answer = self.client.request(method, f"/api{path}", **request)
        assert answer.status_code == code, answer.text
        sentence = answer.json()["error"]
        assert isinstance(sentence, str)
        return sentence

    def upload(self, *files: tuple[str, bytes]) -> str:
        begun = self.post("/uploads", {"files": [{"name": name, "size": len(data)} for name, data in files]})
        for number, (_, data) in enumerate(files):
            for start in range(0, len(data), PIECE):
                put_piece(self.client, begun["id"], number, start, data[start : start + PIECE])
        return str(begun["id"])

    def compare(self, reference: Any, candidate: Any = None, **rest: Any) -> dict[str, Any]:
        """Start a comparison of paths, or of uploads by id, and wait until it is over."""
        body = {"reference": _side(reference), **rest}
        if candidate is not None:
            body["candidate"] = _side(candidate)
        return self.finished(self.post("/comparisons", body)["id"])

    def finished(self, comparison: str) -> dict[str, Any]:
        for _ in range(600):
            entry: dict[str, Any] = self.get(f"/comparisons/{comparison}")["entry"]
            if entry["state"] in ("done", "failed", "cancelled"):
                return entry
            time.sleep(0.05)
        raise AssertionError(f"the comparison never ended: {entry}")


def put_piece(client: httpx.Client, upload: str, number: int, offset: int, data: bytes) -> Any:
    digest = hashlib.sha256(data).hexdigest()
    return client.put(
        f"/api/uploads/{upload}/files/{number}", params={"offset": offset}, content=data, headers={"X-Digest": digest}
    )


def _side(side: Any) -> dict[str, str]:
    return {"path": str(side)} if isinstance(side, Path) else {"upload": side}


Opener = Callable[..., Page]


@dataclass
class Running:
    """A server in a thread of its own."""

    server: uvicorn.Server
    thread: threading.Thread
    page: Page

    def stop(self) -> None:
        self.page.client.close()
        self.page.context.jobs.closing = True
        self.server.should_exit = True
        self.thread.join(20)
        self.page.context.store.close()


def start_server(home: Path, **settings: Any) -> Running:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    store = Store(home)
    context = Context(store, Jobs(store), ServerSettings(port=port, **settings))
    config = uvicorn.Config(create_app(context), log_level="warning", ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)
    return Running(server, thread, Page(client, context))


@pytest.fixture
def open_page(tmp_path: Path) -> Iterator[Opener]:
    """Starts servers over one home, with settings that the test states."""
    running: list[Running] = []

    def start(**settings: Any) -> Page:
        running.append(start_server(tmp_path / "home", **settings))
        return running[-1].page

    yield start
    for one in running:
        one.stop()


@pytest.fixture
def page(open_page: Opener) -> Page:
    return open_page()


def write_folder(folder: Path, **arrays: Any) -> Path:
    """A folder of .npy files, `a__b` for the name `a.b`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, values in arrays.items():
        np.save(folder / f"{name.replace('__', '.')}.npy", np.asarray(values))
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """Two runs of three layers; in the second, one value of layer 1 is wrong and so is all that follows."""
    rng = np.random.default_rng(0)
    reference = {f"{layer:02d}_mlp": rng.standard_normal((4, 8)).astype("f4") for layer in range(3)}
    candidate = dict(reference)
    wrong = candidate["01_mlp"].copy()
    wrong[2, 3] += 0.5
    candidate["01_mlp"] = wrong
    candidate["02_mlp"] = candidate["02_mlp"] * np.float32(1.01)
    return write_folder(tmp_path / "ref", **reference), write_folder(tmp_path / "cand", **candidate)
