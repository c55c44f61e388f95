"""Models that were opened for the browser: their inputs, Python's run and the browser's runs."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import final

import numpy as np

from firstdiff.capturing.onnx_browser import BrowserCapture, BrowserCaptured, BrowserPart, Provider, browser_error
from firstdiff.capturing.onnx_file import OnnxModel, external_locations, open_model
from firstdiff.errors import FirstdiffError, ReadError, UsageError
from firstdiff.measure import measure_statistics
from firstdiff.server.inference.described import (
    describe_file,
    files_of,
    metadata_problems,
    value_types,
    vocabulary_of,
)
from firstdiff.server.inference.fetching import fetch_model
from firstdiff.server.inference.table import output_distances
from firstdiff.server.inference.wire import InputOut, ModelOut, OutputDistance, PythonOut, RunOut, RunState, Vocabulary
from firstdiff.store.uploads import UnknownError
from firstdiff.trace import ArraySource

MAX_MODELS = 20
LOG = "debug_browser.log"
CLOSED = (
    "the browser's tab was closed or crashed before the run was over; "
    "run it again, with a smaller input if memory ran out"
)


@final
class BrowserRun:
    """One run: the capture that is under way, and what came of it."""

    def __init__(self, provider: Provider, optimize: bool, path: Path, capture: BrowserCapture, file: Path) -> None:
        self.id = secrets.token_hex(6)
        self.provider = provider
        self.optimize = optimize
        self.path = path
        self.state: RunState = "running"
        self.error: str | None = None
        self.done = 0.0
        self.captured: BrowserCaptured | None = None
        self.python: tuple[OutputDistance, ...] = ()
        self._capture = capture
        self._file = file
        self._lock = RLock()
        self._watching = 0

    def watch(self) -> None:
        """A tab holds a connection open for as long as it is there, however busy it is."""
        with self._lock:
            self._watching += 1

    def unwatch(self) -> None:
        with self._lock:
            self._watching -= 1

    def fail_if_unwatched(self) -> None:
        """End a run whose tab is gone without a word, as one that crashed is."""
        if not self._watching:
            self.fail(CLOSED, own=True)

    def next_part(self) -> BrowserPart | None:
        with self._lock:
            self._must_run()
            try:
                part = self._capture.next_part()
            except FirstdiffError as error:
                self.fail(str(error), own=True)
                raise
            self.done = part.done if part else 1.0
            return part

    def take(self, results: Mapping[str, np.ndarray], kinds: Mapping[str, str]) -> None:
        with self._lock:
            self._must_run()
            self._capture.take(results, kinds)

    def finish(self, optimized: Mapping[str, np.ndarray], plain: Mapping[str, np.ndarray], python: Path | None) -> None:
        with self._lock:
            self._must_run()
            self.captured = self._capture.finish(optimized, plain)
            if python is not None:
                self.python = output_distances(self.path, python)
            self.state = "done"

    def fail(self, message: str, *, own: bool) -> None:
        """End the run; `own` texts are sentences already, others come from the runtime."""
        with self._lock:
            if self.state != "running":
                return
            self.error = message if own else browser_error(message, self.provider, self._file)
            self.state = "failed"
            self._capture.abandon(self.error)

    def out(self) -> RunOut:
        captured = self.captured
        return RunOut(
            self.id,
            self.provider,
            self.optimize,
            self.state,
            self.error,
            self.done,
            captured.tensors if captured else 0,
            _distances(captured.optimized) if captured else (),
            _distances(captured.plain) if captured else (),
            self.python,
            captured.left_out if captured else (),
            str(self.path),
        )

    def _must_run(self) -> None:
        if self.state != "running":
            raise UsageError(f"this run is over: {self.error or 'it was finished'}")


@dataclass
class BrowserModel:
    """A model file and everything that was done with it.

    folder: where its traces go
    """

    id: str
    folder: Path
    model: OnnxModel
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    python: PythonOut | None = None
    python_error: str | None = None
    torch: Path | None = None
    runs: list[BrowserRun] = field(default_factory=list)
    _traces: int = 0
    _lock: RLock = field(default_factory=RLock)

    @property
    def vocabulary(self) -> Vocabulary | None:
        return vocabulary_of(self.files)

    @property
    def files(self) -> list[Path]:
        return files_of(self.model)

    def set_inputs(self, inputs: dict[str, np.ndarray]) -> None:
        """Take other inputs: what was run on the ones before is forgotten, its traces stay."""
        with self._lock:
            self.inputs = inputs
            self.python = self.python_error = self.torch = None
            self.runs = []

    def run_python(self) -> None:
        """Record the model in Python's onnxruntime, once for these inputs."""
        import onnxruntime

        from firstdiff.capturing import capture_onnx

        self._must_have_inputs()
        with self._lock:
            if self.python is not None:
                return
            try:
                captured = capture_onnx(self.model.path, self.inputs, self._new_trace("python"))
            except FirstdiffError as error:
                self.python_error = str(error)
                raise
            self.python_error = None
            optimized = _distances(captured.optimized)
            version = onnxruntime.__version__
            self.python = PythonOut(captured.tensors, optimized, captured.left_out, version, str(captured.path))

    def start_run(
        self, provider: Provider, optimize: bool, agent: str, path: Path | None = None, *, overwrite: bool = False
    ) -> BrowserRun:
        self._must_have_inputs()
        with self._lock:
            path = path or self._new_trace(provider)
            capture = BrowserCapture(
                self.model,
                self.inputs,
                path,
                provider=provider,
                optimize=optimize,
                agent=agent,
                overwrite=overwrite,
            )
            self.runs.append(BrowserRun(provider, optimize, path, capture, self.model.path))
            return self.runs[-1]

    def run(self, run: str) -> BrowserRun:
        found = next((one for one in self.runs if one.id == run), None)
        if found is None:
            raise UnknownError(f"there is no run {run!r} of this model; its inputs may have been changed")
        return found

    def out(self) -> ModelOut:
        proto, files = self.model.proto, self.files
        vocabulary = self.vocabulary
        given = [
            InputOut(name, array.dtype.name, array.shape, measure_statistics(ArraySource(array)))
            for name, array in self.inputs.items()
        ]
        return ModelOut(
            self.id,
            self.model.path.name,
            self.model.opsets.get("", 0),
            len(proto.graph.node),
            f"{proto.producer_name} {proto.producer_version}".strip(),
            tuple(describe_file(file) for file in files),
            value_types(item for item in proto.graph.input if item.name not in self.model.weights),
            value_types(proto.graph.output),
            vocabulary,
            metadata_problems(self.model, files, vocabulary),
            tuple(given),
            self.python,
            self.python_error,
            str(self.torch) if self.torch else None,
            tuple(run.out() for run in self.runs),
        )

    def _new_trace(self, name: str) -> Path:
        self._traces += 1
        return self.folder / f"{self._traces:03d}-{name}.trace"

    def _must_have_inputs(self) -> None:
        if not self.inputs and value_types(
            item for item in self.model.proto.graph.input if item.name not in self.model.weights
        ):
            raise UsageError(f"{self.model.path.name} has no inputs yet; give a file, or make random or constant ones")


@final
class BrowserModels:
    """The models of one server, the newest twenty; traces of older ones are deleted."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "browser"
        self.log = home / LOG
        self._models: dict[str, BrowserModel] = {}
        self._lock = RLock()

    def open(self, path: Path, uploaded: Mapping[str, Path] | None = None, url: str | None = None) -> BrowserModel:
        """Open a model file, the one .onnx among uploaded files, which are linked under their names, or an address."""
        identity = secrets.token_hex(8)
        folder = self.folder / identity
        folder.mkdir(parents=True)
        try:
            file = _link_files(folder, uploaded) if uploaded is not None else path
            file = fetch_model(url, folder) if url is not None else file
            found = BrowserModel(identity, folder, open_model(file))
        except ReadError as error:
            shutil.rmtree(folder, ignore_errors=True)
            # where this server keeps a file tells nothing to whoever chose it
            raise ReadError(str(error).replace(f"{folder}{os.sep}", "")) from error
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        with self._lock:
            self._models[identity] = found
            while len(self._models) > MAX_MODELS:
                oldest = self._models.pop(next(iter(self._models)))
                shutil.rmtree(oldest.folder, ignore_errors=True)
        return found

    def get(self, model: str) -> BrowserModel:
        found = self._models.get(model)
        if found is None:
            raise UnknownError(f"there is no model {model!r}; the server was started anew, so load it again")
        return found


def _link_files(folder: Path, uploaded: Mapping[str, Path]) -> Path:
    """Put uploaded files side by side under their own names; only plain names are taken."""
    models = [name for name in uploaded if name.lower().endswith(".onnx")]
    if len(models) != 1:
        found = ", ".join(models) or "none"
        raise UsageError(f"choose one .onnx file and the files that belong to it; of .onnx files there are: {found}")
    for name, data in uploaded.items():
        if name in (".", "..") or "/" in name or "\\" in name or "\0" in name or len(name.encode()) > 255:
            raise UsageError(f"{name[:80]!r} is no plain file name; rename the file")
        with suppress(FileExistsError):
            try:
                os.link(data, folder / name)
            except OSError:  # another file system, or one without links
                shutil.copyfile(data, folder / name)
    missing = [name for name in external_locations(folder / models[0]) if not (folder / name).is_file()]
    if missing:
        raise UsageError(f"the weights of {models[0]} are in {', '.join(missing)}; choose the files together")
    return folder / models[0]


def _distances(found: Mapping[str, float]) -> tuple[OutputDistance, ...]:
    return tuple(OutputDistance(name, value) for name, value in found.items())
