"""Whatever ends the server, what is finished stays and what is not goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.server.conftest import PIECE, put_piece

Start = Callable[..., tuple[subprocess.Popen[str], httpx.Client]]
LARGE = np.random.default_rng(0).standard_normal(30_000).tobytes()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Start]:
    """Starts `firstdiff serve` as a process of its own."""
    started: list[tuple[subprocess.Popen[str], httpx.Client]] = []

    def start(*words: object) -> tuple[subprocess.Popen[str], httpx.Client]:
        command = [sys.executable, "-m", "firstdiff", "serve", *map(str, words), "--no-open", "--port", "0"]
        process = subprocess.Popen(
            [*command, "--home", str(tmp_path / "home")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        address = re.search(r"http://[^/]+", line)
        assert address, line
        started.append((process, httpx.Client(base_url=address[0], timeout=30)))
        return started[-1]

    yield start
    for process, client in started:
        client.close()
        process.kill()
        process.communicate()


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def slow_runs(folder: Path) -> tuple[Path, Path]:
    """Two runs that take a while: enough bytes to be caught in the middle."""
    for side in ("r", "c"):
        (folder / side).mkdir()
        values = np.random.default_rng(0).standard_normal((64, 1 << 14)).astype("f4")
        for number in range(24):
            np.save(folder / side / f"{number:02d}_x.npy", values + (side == "c"))
    return folder / "r", folder / "c"


def entry_of(client: httpx.Client, comparison: str) -> dict[str, Any]:
    entry: dict[str, Any] = client.get(f"/api/comparisons/{comparison}").json()["entry"]
    return entry


def until(client: httpx.Client, comparison: str, *states: str) -> dict[str, Any]:
    for _ in range(1200):
        entry = entry_of(client, comparison)
        if entry["state"] in states:
            return entry
        time.sleep(0.02)
    raise AssertionError(f"never {states}: {entry}")


def test_a_server_killed_in_an_upload_goes_on_with_it(serve: Start) -> None:
    process, client = serve()
    begun = client.post("/api/uploads", json={"files": [{"name": "x.bin", "size": len(LARGE)}]}).json()["id"]
    assert put_piece(client, begun, 0, 0, LARGE[:PIECE]).status_code == 200

    def halting() -> Iterator[bytes]:
        yield LARGE[PIECE : PIECE + 1000]
        kill(process)
        yield LARGE[PIECE + 1000 : 2 * PIECE]

    with pytest.raises(httpx.TransportError):
        client.put(
            f"/api/uploads/{begun}/files/0", params={"offset": PIECE}, content=halting(), headers={"X-Digest": "0" * 64}
        )
    _, again = serve()
    assert again.get(f"/api/uploads/{begun}").json()["files"][0]["have"] == PIECE
    for start in range(PIECE, len(LARGE), PIECE):
        assert put_piece(again, begun, 0, start, LARGE[start : start + PIECE]).status_code == 200


def test_a_server_killed_in_a_comparison_starts_it_again(serve: Start, tmp_path: Path) -> None:
    reference, candidate = slow_runs(tmp_path)
    process, client = serve()
    body = {"reference": {"path": str(reference)}, "candidate": {"path": str(candidate)}}
    comparison = client.post("/api/comparisons", json=body).json()["id"]
    until(client, comparison, "running")
    kill(process)
    _, again = serve()
    entry = until(again, comparison, "done", "failed")
    assert (entry["state"], entry["verdict"]) == ("done", "mismatch")
    results = tmp_path / "home" / "results" / comparison
    assert [folder.name for folder in results.iterdir()] == ["000001"]


def test_another_server_on_the_same_home_takes_over(serve: Start, tmp_path: Path) -> None:
    reference, candidate = slow_runs(tmp_path)
    process, client = serve()
    _, other = serve()
    body = {"reference": {"path": str(reference)}, "candidate": {"path": str(candidate)}}
    comparison = client.post("/api/comparisons", json=body).json()["id"]
    until(other, comparison, "running")
    kill(process)
    assert until(other, comparison, "done", "failed")["state"] == "done"


def test_a_finished_comparison_survives(serve: Start, runs: tuple[Path, Path]) -> None:
    process, client = serve(*runs)
    (listed,) = client.get("/api/comparisons").json()["comparisons"]
    done = until(client, listed["id"], "done")
    kill(process)
    _, again = serve()
    assert entry_of(again, listed["id"]) == done
    assert len(again.get(f"/api/comparisons/{listed['id']}/rows").json()["rows"]) == 3


def test_a_comparison_whose_process_dies_says_so(serve: Start, tmp_path: Path) -> None:
    reference, candidate = slow_runs(tmp_path)
    process, client = serve()
    body = {"reference": {"path": str(reference)}, "candidate": {"path": str(candidate)}}
    comparison = client.post("/api/comparisons", json=body).json()["id"]
    until(client, comparison, "running")
    os.kill(_child_of(process.pid), signal.SIGSEGV)
    entry = until(client, comparison, "failed", "done")
    assert entry["state"] == "failed"
    assert "was ended by SIGSEGV; run it again" in entry["error"]
    client.post(f"/api/comparisons/{comparison}/rerun")
    assert until(client, comparison, "done", "failed")["state"] == "done"


def test_ctrl_c_ends_cleanly_even_while_someone_follows(serve: Start, tmp_path: Path) -> None:
    reference, candidate = slow_runs(tmp_path)
    process, client = serve(reference, candidate)
    (listed,) = client.get("/api/comparisons").json()["comparisons"]
    with client.stream("GET", f"/api/comparisons/{listed['id']}/events") as stream:
        next(stream.iter_lines())
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert said == "stopped\n"
    _, again = serve()
    assert until(again, listed["id"], "done")["verdict"] == "mismatch"


def _child_of(parent: int) -> int:
    """The process that compares."""
    for _ in range(500):
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = status.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent:
                return int(status.parent.name)
        time.sleep(0.01)
    raise AssertionError("there is no such process")
