"""Models for the page's browser: opened, given inputs, run in Python, with a run of the page that ends early."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import onnx
import pytest

from tests.server.conftest import Opener, Page

pytest.importorskip("onnxruntime")

from tests.capturing.onnx_models import mlp, saved


@pytest.fixture
def opened(page: Page, tmp_path: Path) -> dict[str, Any]:
    found: dict[str, Any] = page.post("/inference/models", {"path": str(saved(mlp(), tmp_path))})
    return found


def test_a_model_tells_its_files_and_what_it_takes(page: Page, opened: dict[str, Any], tmp_path: Path) -> None:
    (file,) = opened["files"]
    data = (tmp_path / "model.onnx").read_bytes()
    assert file == {"name": "model.onnx", "bytes": len(data), "digest": hashlib.sha256(data).hexdigest()}
    assert [item["name"] for item in opened["inputs"]] == ["x"]
    assert page.client.get(f"/api/inference/models/{opened['id']}/files/0").content == data
    assert "no file 7" in page.error("GET", f"/inference/models/{opened['id']}/files/7", 404)


def test_an_uploaded_model_is_opened(page: Page, tmp_path: Path) -> None:
    upload = page.upload(("folder/model.onnx", saved(mlp(), tmp_path).read_bytes()))
    assert page.post("/inference/models", {"upload": upload})["name"] == "model.onnx"


def test_weights_that_were_not_chosen_with_their_model_are_named(page: Page, tmp_path: Path) -> None:
    onnx.save_model(mlp(), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=64)
    upload = page.upload(("m.onnx", (tmp_path / "m.onnx").read_bytes()))
    problem = page.error("POST", "/inference/models", 400, json={"upload": upload})
    assert problem == "the weights of m.onnx are in w.bin; choose the files together"
    upload = page.upload(("no.onnx", b"this is no model at all"))
    assert page.error("POST", "/inference/models", 409, json={"upload": upload}).startswith("no.onnx: cannot be read")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A web server over the test's folder."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_model_is_fetched_by_its_address_with_what_lies_beside_it(page: Page, address: str, tmp_path: Path) -> None:
    onnx.save_model(
        mlp(), tmp_path / "my model.onnx", save_as_external_data=True, location="w 1.bin", size_threshold=64
    )
    (tmp_path / "vocab.json").write_text('["a", "b"]')
    opened = page.post("/inference/models", {"url": f"{address}/my%20model.onnx?version=2"})
    assert [file["name"] for file in opened["files"]] == ["my model.onnx", "w 1.bin", "vocab.json"]
    assert opened["files"][1]["digest"] == hashlib.sha256((tmp_path / "w 1.bin").read_bytes()).hexdigest()
    at = f"/inference/models/{opened['id']}"
    page.post(f"{at}/inputs", {"kind": "random", "sizes": {"n": 2}})
    assert page.post(f"{at}/python")["python"]["tensors"] == 17


def test_addresses_that_give_no_model_are_one_sentence(page: Page, address: str, tmp_path: Path) -> None:
    def told(url: str, status: int = 409) -> str:
        return page.error("POST", "/inference/models", status, json={"url": url})

    assert "cannot be fetched (the server answers 404" in told(f"{address}/none.onnx")
    assert "must begin with https://" in told(f"file://{saved(mlp(), tmp_path)}", 400)
    assert "cannot be fetched" in told("http://127.0.0.1:1/model.onnx")
    onnx.save_model(mlp(), tmp_path / "far.onnx", save_as_external_data=True, location="w.bin", size_threshold=64)
    proto = onnx.load(tmp_path / "far.onnx", load_external_data=False)
    for tensor in proto.graph.initializer:
        for entry in tensor.external_data:
            entry.value = "../w.bin" if entry.key == "location" else entry.value
    onnx.save_model(proto, tmp_path / "far.onnx")
    assert "only files beside the model are fetched" in told(f"{address}/far.onnx")


def test_python_keeps_its_results_when_the_tab_closes(page: Page, opened: dict[str, Any]) -> None:
    at = f"/inference/models/{opened['id']}"
    page.post(f"{at}/inputs", {"kind": "random", "seed": 3, "sizes": {"n": 2}})
    python = page.post(f"{at}/python")["python"]
    assert python["tensors"] == 17
    run = page.post(f"{at}/runs", {"provider": "wasm"})
    assert page.client.get(f"/api{at}/runs/{run['id']}/part").status_code == 200
    assert page.client.post(f"/api{at}/runs/{run['id']}/close").status_code == 204
    ended = page.get(f"{at}/runs/{run['id']}")
    assert ended["state"] == "failed"
    assert "tab was closed" in ended["error"]
    assert page.get(at)["python"] == python
    assert "tab was closed" in page.error("GET", f"{at}/runs/{run['id']}/table", 409)


def test_wrong_inputs_are_answered_with_the_right_ones(page: Page, opened: dict[str, Any], tmp_path: Path) -> None:
    np.savez(tmp_path / "wrong.npz", ids=np.zeros((2, 16), np.float32))
    body = {"kind": "file", "path": str(tmp_path / "wrong.npz")}
    sentence = page.error("POST", f"/inference/models/{opened['id']}/inputs", 400, json=body)
    assert "ids" in sentence
    assert "x" in sentence


def test_what_is_no_model_is_one_sentence(page: Page, tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no model")
    assert "text.onnx" in page.error("POST", "/inference/models", 409, json={"path": str(tmp_path / "text.onnx")})
    assert page.error("GET", "/inference/models/none", 404)


def test_the_log_is_kept_saved_and_cleared(page: Page) -> None:
    kept = page.post("/inference/log", {"lines": ["loaded", "ran in 3 ms"]})
    assert Path(kept["path"]).name == "debug_browser.log"
    assert Path(kept["path"]).read_text(encoding="utf-8") == "loaded\nran in 3 ms\n"
    assert page.client.get("/api/inference/log").text == "loaded\nran in 3 ms\n"
    assert page.client.delete("/api/inference/log").json()["bytes"] == 0
    assert not Path(kept["path"]).exists()


def test_another_origin_may_not_run_models(open_page: Opener, tmp_path: Path) -> None:
    page = open_page(origins=("http://elsewhere.example",))
    headers = {"Origin": "http://elsewhere.example"}
    body = {"path": str(saved(mlp(), tmp_path))}
    assert "another origin" in page.error("POST", "/inference/models", 403, json=body, headers=headers)
