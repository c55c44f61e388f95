"""Request and response types of the page "Browser inference", and tensors and models as messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import Field

from firstdiff import dtypes
from firstdiff.capturing.onnx_browser import BrowserPart, Provider
from firstdiff.errors import UsageError
from firstdiff.json_text import to_json
from firstdiff.schema import Statistics
from firstdiff.server.schemas import Body

_HEAD = 4  # bytes of a message that tell how long its JSON header is; raw bytes follow the header
RunState = Literal["running", "done", "failed"]


class ModelIn(Body):
    """An .onnx file on this machine, an upload of it with the files that belong to it, or its address."""

    path: str | None = None
    upload: str | None = None
    url: str | None = None


class InputsIn(Body):
    """Inputs of a model: an .npz, random values, or one value everywhere.

    sizes: what to take for axes that the model leaves open, by their name
    below: random whole numbers are less than this; None for the size of the vocabulary, or 10
    """

    kind: Literal["file", "random", "constant"]
    path: str | None = None
    upload: str | None = None
    seed: int = Field(default=0, ge=0)
    value: float = 0.0
    below: int | None = Field(default=None, ge=1)
    sizes: dict[str, int] = Field(default_factory=dict)


class TorchIn(Body):
    """A trace of the torch model on the same inputs."""

    path: str | None = None
    upload: str | None = None


class RunIn(Body):
    provider: Provider = "wasm"
    optimize: bool = False
    agent: str = ""


class FailedIn(Body):
    """An error message of the runtime, or with `own` one of the page."""

    message: str
    own: bool = False


class LogIn(Body):
    lines: list[str]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file of the model as it is on disk now; `digest` is its SHA-256."""

    name: str
    bytes: int
    digest: str


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of an input: its length, or the name that the model gives to an open one."""

    size: int | None
    name: str | None


@dataclass(frozen=True, slots=True)
class ValueType:
    """An input or output as the model declares it; axes are None where it does not say how many there are."""

    name: str
    dtype: str
    axes: tuple[Axis, ...] | None


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A vocabulary beside the model: how many entries, and the first ten by id."""

    file: str
    size: int
    first: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InputOut:
    name: str
    dtype: str
    shape: tuple[int, ...]
    statistics: Statistics


@dataclass(frozen=True, slots=True)
class OutputDistance:
    """The distance of one output of a run from another run's, in standard deviations of the latter."""

    name: str
    distance: float


@dataclass(frozen=True, slots=True)
class PythonOut:
    """Python's onnxruntime on the same inputs; `optimized` is its own plain run against the exposed one."""

    tensors: int
    optimized: tuple[OutputDistance, ...]
    left_out: tuple[str, ...]
    version: str
    path: str


@dataclass(frozen=True, slots=True)
class RunOut:
    """One run in a browser.

    optimized, plain: outputs of the untouched model with and without optimisation, against the exposed one's
    python: outputs of the untouched, optimised model in the browser against Python's unoptimised ones
    path: the trace
    """

    id: str
    provider: Provider
    optimize: bool
    state: RunState
    error: str | None
    done: float
    tensors: int
    optimized: tuple[OutputDistance, ...]
    plain: tuple[OutputDistance, ...]
    python: tuple[OutputDistance, ...]
    left_out: tuple[str, ...]
    path: str


@dataclass(frozen=True, slots=True)
class ModelOut:
    """A model that was opened, what is declared in it, and what was run.

    problems: sentences about metadata that is missing or does not fit
    ran: id of the newest run
    """

    id: str
    name: str
    opset: int
    nodes: int
    producer: str
    files: tuple[ModelFile, ...]
    inputs: tuple[ValueType, ...]
    outputs: tuple[ValueType, ...]
    vocabulary: Vocabulary | None
    problems: tuple[str, ...]
    given: tuple[InputOut, ...]
    python: PythonOut | None
    python_error: str | None
    torch: str | None
    runs: tuple[RunOut, ...]


@dataclass(frozen=True, slots=True)
class Against:
    """One tensor of another run beside the browser's.

    distance: in standard deviations of the other run's
    wrong: further than rounding of what it was computed from
    """

    name: str
    distance: float
    statistics: Statistics
    wrong: bool


@dataclass(frozen=True, slots=True)
class TensorRow:
    name: str
    op: str | None
    dtype: str
    shape: tuple[int, ...]
    statistics: Statistics
    python: Against | None
    torch: Against | None
    other: Against | None


@dataclass(frozen=True, slots=True)
class TableOut:
    """Every tensor of a run, in order.

    limit: the distance up to which runs are taken for equal
    first: the first row that is wrong beside Python's
    first_torch: the first row that is wrong beside torch's
    """

    rows: tuple[TensorRow, ...]
    limit: float
    first: int | None
    first_torch: int | None


@dataclass(frozen=True, slots=True)
class LogOut:
    path: str
    bytes: int


def pack_part(part: BrowserPart) -> bytes:
    """A part for the browser: the head says what to feed, fetch and keep, the rest is the model."""
    head = {"feeds": part.feeds, "values": part.values, "kept": part.kept, "done": part.done}
    text = to_json(head).encode()
    return len(text).to_bytes(_HEAD, "little") + text + part.model


def unpack_tensors(data: bytes) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, str]]:
    """Tensors by set and name, and the kinds of values that could not be sent; UsageError if the message is torn."""
    try:
        size = int.from_bytes(data[:_HEAD], "little")
        head = json.loads(data[_HEAD : _HEAD + size])
        start, sets = _HEAD + size, dict[str, dict[str, np.ndarray]]()
        for name, tensors in head["sets"].items():
            sets[name] = {}
            for tensor in tensors:
                array, start = _tensor(data, start, tensor)
                sets[name][tensor["name"]] = array
        kinds = {str(name): str(kind) for name, kind in head.get("kinds", {}).items()}
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"the browser's message cannot be read ({error}); reload the page and run again") from error
    return sets, kinds


def _tensor(data: bytes, start: int, said: Mapping[str, Any]) -> tuple[np.ndarray, int]:
    dtype = dtypes.from_name(said["dtype"])
    shape = tuple(int(size) for size in said["shape"])
    count = int(np.prod(shape, dtype=np.int64))
    stop = start + count * dtype.itemsize
    if min(shape, default=0) < 0 or stop > len(data):
        raise ValueError(f"{said['name']} of shape {list(shape)} is cut off")
    return np.frombuffer(data, dtype.newbyteorder("<"), count, start).reshape(shape), stop
