"""Run a comparison in a process of its own and report its progress."""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, final

from firstdiff.comparing import OnProgress, Options, compare_traces
from firstdiff.comparing import Progress as CompareProgress
from firstdiff.comparing.single_trace import compare_each_other, summarize_trace
from firstdiff.comparing.summary import THE_SAME, is_same_file
from firstdiff.errors import FirstdiffError, ReadError
from firstdiff.json_text import from_plain, to_json
from firstdiff.schema import Comparison
from firstdiff.server.options import options_in
from firstdiff.server.result_tables import write_tables
from firstdiff.store.entry import Job, Outcome, Progress
from firstdiff.store.inputs import Files, open_given
from firstdiff.trace import Trace

_TELL_EVERY = 0.1


@dataclass(frozen=True, slots=True)
class Task:
    """The job that the parent process sends.

    files: of the sides that were uploaded
    folder: where the result goes
    same_bytes: whether both sides were uploaded and hold the same
    """

    job: Job
    files: dict[str, Files]
    folder: str
    same_bytes: bool = False

    @property
    def warnings(self) -> tuple[str, ...]:
        sides = self.job.sides
        paths = [sides[name].path if name in sides else None for name in ("reference", "candidate")]
        return (THE_SAME,) if self.same_bytes or is_same_file(*paths) else ()


@final
@dataclass
class ProgressReporter:
    """Writes progress, not too often."""

    out: IO[str]
    told: float = 0.0
    stage: str = ""
    first: str | None = None
    since: float = field(default_factory=time.monotonic)

    def stage_begins(self, stage: str) -> None:
        self.stage, self.since, self.told = stage, time.monotonic(), 0.0
        self._say(Progress(stage=stage, done=0, total=0))

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self.told < _TELL_EVERY and done < total:
            return
        self.told = now
        rate = done / (now - self.since) if now > self.since and done else None
        left = (total - done) / rate if rate else None
        in_bytes = rate if self.stage == "comparing" else None
        self._say(
            Progress(
                stage=self.stage,
                done=done,
                total=total,
                bytes_per_second=in_bytes,
                seconds_left=left,
                first=self.first,
            )
        )

    def on_progress(self, progress: CompareProgress) -> None:
        """Report the progress of `compare`."""
        if progress.stage != self.stage:
            self.stage_begins(progress.stage)
        self.first = progress.first
        if progress.total:
            self(progress.done, progress.total)

    def _say(self, progress: Progress) -> None:
        self.out.write(to_json({"progress": progress}) + "\n")
        self.out.flush()


def run(task: Task, tell: ProgressReporter) -> Outcome:
    """Compare, write the result, and return what the list shows of it."""
    job = task.job
    traces, unopened = _open(task, tell)
    options = options_in(job.options, job.edits, traces)
    control = traces.get("third") if job.options.get("control") else None
    if job.kind == "pair" and control is not None:
        sides = traces["reference"], traces["candidate"]
        comparison = compare_traces(*sides, options, tell.on_progress, control=control)
    else:
        comparison = _KINDS[job.kind](traces, options, tell.on_progress)
    comparison = replace(comparison, warnings=(*task.warnings, *comparison.warnings, *unopened))
    tell.stage_begins("writing")
    return write_tables(Path(task.folder), job.kind, comparison, traces)


def _open(task: Task, tell: ProgressReporter) -> tuple[dict[str, Trace], list[str]]:
    """Open the traces; an unreadable third one, which is only inspected, becomes a notice."""
    traces: dict[str, Trace] = {}
    unopened: list[str] = []
    for side, given in task.job.sides.items():
        tell.stage_begins(f"opening the {side}")
        try:
            traces[side] = open_given(given, task.files.get(side), task.job.options.get("order"), tell)
        except ReadError as error:
            if side != "third":
                raise
            unopened.append(f"the third trace cannot be opened: {error}")
    return traces, unopened


_Compare = Callable[[Mapping[str, Trace], Options, OnProgress], Comparison]
_KINDS: dict[str, _Compare] = {
    "pair": lambda traces, options, tell: compare_traces(traces["reference"], traces["candidate"], options, tell),
    "look": lambda traces, options, tell: summarize_trace(traces["reference"], options, tell),
    "self": lambda traces, options, tell: compare_each_other(traces["reference"], options, tell),
}


def main() -> None:
    """Run the job that stands on stdin."""
    out, sys.stdout = sys.stdout, sys.stderr  # output of libraries must not be taken for progress
    gc.set_threshold(100_000)
    task = from_plain(Task, json.loads(sys.stdin.readline()))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        said: dict[str, Any] = {"done": run(task, ProgressReporter(out))}
    except FirstdiffError as error:
        said = {"error": str(error)}
    except MemoryError:
        said = {"error": "there is not enough memory to compare these; close other programs and run it again"}
    except OSError as error:
        said = {"error": f"the result cannot be written ({error.strerror or error}); make room and run it again"}
    except Exception as error:  # any error must reach the page
        said = {"error": f"firstdiff failed inside ({type(error).__name__}: {error}); please report it"}
    out.write(to_json(said) + "\n")
    out.flush()


def _end_with_parent() -> None:
    """End with the parent, which never writes again: end of input means it is gone."""
    while os.read(0, 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
