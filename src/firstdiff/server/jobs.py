"""Run queued comparisons: a thread for each slot, a process for each comparison."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from typing import IO, Any, final

from firstdiff.errors import FirstdiffError
from firstdiff.json_text import from_plain, to_json
from firstdiff.store import Job, Outcome, Progress, Store
from firstdiff.store.inputs import Files, files_of

SLOTS = 2
_LOOK_EVERY = 1.0
_PATIENCE = 5.0
_STILL_READ = 10.0  # seconds a replaced result is kept for requests still reading it


@final
class Jobs:
    """The comparisons of a store, run as they come."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._owner = store.own()
        self._wake = threading.Condition()
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._replaced: list[tuple[float, Job]] = []
        self.closing = False
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(SLOTS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """Wake the loop: there may be something to do."""
        with self._wake:
            self._wake.notify_all()

    def stop(self, comparison: str) -> None:
        """End the process of a comparison, if it runs here; its state in the store decides what follows."""
        process = self._running.get(comparison)
        if process is not None:
            _end(process)

    def close(self) -> None:
        """End all processes; running comparisons are queued again for the next server."""
        self.closing = True
        self.wake()
        self._store.comparisons.release(self._owner.id)
        for process in list(self._running.values()):
            _end(process)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(_PATIENCE)
        self._store.comparisons.release(self._owner.id)
        self._sweep(0.0)
        self._owner.close()

    def _serve(self) -> None:
        while not self.closing:
            job = self._claim()
            if job is not None:
                self._run(job)
                continue
            self._sweep(_STILL_READ)
            with self._wake:
                if not self.closing:
                    self._wake.wait(_LOOK_EVERY)

    def _claim(self) -> Job | None:
        """Claim the next job, also one of a server that died; one thread at a time."""
        with self._wake, suppress(FirstdiffError):
            self._store.release_dead(self._owner)
            return self._store.comparisons.claim(self._owner.id)
        return None

    def _run(self, job: Job) -> None:
        try:
            said = self._compare(job)
        except FirstdiffError as error:
            said = {"error": str(error)}
        except OSError as error:
            said = {"error": f"the comparison could not be started ({error.strerror or error})"}
        while not self.closing:
            with suppress(FirstdiffError):  # the disk is full; try again later
                self._settle(job, said)
                return
            time.sleep(_LOOK_EVERY)

    def _settle(self, job: Job, said: dict[str, Any]) -> None:
        if "done" in said:
            self._store.comparisons.finish(job, self._owner.id, from_plain(Outcome, said["done"]))
        else:
            self._store.comparisons.fail(job, self._owner.id, said["error"])
        self._replaced.append((time.monotonic(), job))

    def _sweep(self, age: float) -> None:
        """Remove results that were replaced, and what cancelled runs left, once they are that old."""
        with self._wake:
            due = [entry for entry in self._replaced if time.monotonic() - entry[0] >= age]
            self._replaced = [entry for entry in self._replaced if entry not in due]
        for _, job in due:
            with suppress(FirstdiffError):
                self._store.drop_old_results(job)

    def _compare(self, job: Job) -> dict[str, Any]:
        files: dict[str, Files | None] = {side: files_of(self._store, given) for side, given in job.sides.items()}
        task = {
            "job": job,
            "files": {side: found for side, found in files.items() if found is not None},
            "folder": str(self._store.home.result(job.id, job.run)),
            "same_bytes": self._same_bytes(job),
        }
        with tempfile.TemporaryFile() as log:
            process = _spawn(log)
            self._running[job.id] = process
            try:
                return self._followed(job, process, to_json(task), log)
            finally:
                self._running.pop(job.id, None)
                _end(process)
                for pipe in (process.stdin, process.stdout):
                    with suppress(OSError):
                        pipe.close() if pipe else None

    def _same_bytes(self, job: Job) -> bool:
        sides = job.sides
        return "candidate" in sides and self._store.same_bytes(sides["reference"], sides["candidate"])

    def _followed(self, job: Job, process: subprocess.Popen[str], task: str, log: IO[bytes]) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.write(task + "\n")
            process.stdin.flush()
        if self.closing or not self._store.comparisons.is_wanted(job, self._owner.id):
            return {"error": "it was cancelled"}
        for line in process.stdout:
            said: dict[str, Any] = json.loads(line)
            if "progress" not in said:
                return said
            if not self._store.comparisons.tell(job, self._owner.id, from_plain(Progress, said["progress"])):
                return {"error": "it was cancelled"}
        return {"error": _how_it_ended(process.wait(), log)}


def _spawn(log: IO[bytes]) -> subprocess.Popen[str]:
    """Start the process in its own group, so that Ctrl-C reaches the server alone, which then ends it."""
    apart: dict[str, Any] = (
        {"creationflags": 0x200} if sys.platform == "win32" else {"start_new_session": True}  # CREATE_NEW_PROCESS_GROUP
    )
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "firstdiff.server.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        encoding="utf-8",
        **apart,
    )


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _how_it_ended(code: int, log: IO[bytes]) -> str:
    log.seek(0)
    last = log.read().decode("utf-8", "replace").strip().splitlines()[-1:]
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = str(-code)
        return f"the process that compared was ended by {name}; run it again, and report it if it happens twice"
    said = f": {last[0]}" if last else ""
    return f"the process that compared ended with code {code}{said}; run it again, and report it if it happens twice"
