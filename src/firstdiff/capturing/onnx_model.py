"""`capture_onnx`: record every value that a model computes in onnxruntime."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from firstdiff import dtypes
from firstdiff.capturing.onnx_file import OnnxModel, need_onnx, open_model
from firstdiff.capturing.onnx_graph import PART_BYTES, Part, Parts, value_bytes
from firstdiff.capturing.onnx_session import (
    array_of,
    check_inputs,
    make_session,
    provider_named,
    read_inputs,
    run_session,
    type_of,
    value_of,
)
from firstdiff.capturing.onnx_values import Params, ValueRecorder, distance
from firstdiff.capturing.queue_writer import QueueWriter
from firstdiff.capturing.recording import noted_input, producer, trace_path
from firstdiff.capturing.session import Filters, Session
from firstdiff.capturing.torch_model import CaptureWarning
from firstdiff.trace import TraceWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx
    import onnxruntime

# beyond this share of an output's deviation the optimised run is another computation, and not another order of sums
_SAME = 1e-3
_NUDGES = 8  # times what an output moves when inputs are nudged by a rounding: that is rounding, too


class Captured(NamedTuple):
    """The result of `capture_onnx`.

    path: the trace
    tensors: how many are in it
    optimized: for each output, the greatest distance of the plain optimised run, in standard deviations of the output
    left_out: sentences about what is not in the trace
    """

    path: Path
    tensors: int
    optimized: dict[str, float]
    left_out: tuple[str, ...]


def capture_onnx(
    model: str | Path | onnx.ModelProto,
    inputs: Mapping[str, Any] | str | Path,
    path: str | Path | None = None,
    *,
    params: Params = "auto",
    provider: str = "cpu",
    optimize: bool = False,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    overwrite: bool = False,
    part_bytes: int = PART_BYTES,
    on_progress: Callable[[int, int], None] | None = None,
) -> Captured:
    """Run an ONNX model once and record every value it computes, in the order of execution.

    >>> fd.capture_onnx("model.onnx", {"ids": ids}, "candidate.trace")      # doctest: +SKIP

    The untouched, optimised model runs too: its outputs are recorded beside the others (`logits:out.optimized`), for
    exposing values changes what the runtime fuses and which memory it uses again.

    model: the file, or a ModelProto
    inputs: arrays by name, or an .npz of them
    path: the folder to write; FIRSTDIFF_TRACE if left out
    params: initializers to record: "small" those up to 64 KiB, "auto" all up to 256 MiB in total, "all", "none"
    provider: where to run: "cpu", "cuda", or a name such as "CPUExecutionProvider"
    optimize: let the runtime optimise the exposed model too, as far as that goes
    include, exclude: globs over names of values
    overwrite: replace a trace that is there
    part_bytes: values leave the runtime in parts of about this size, which bounds memory
    on_progress: called with the number of nodes that have run, and of all
    """
    need_onnx()
    chosen = provider_named(provider)
    with _on_disk(model) as file:
        opened = open_model(file)
        arrays = check_inputs(opened, read_inputs(inputs) if isinstance(inputs, str | Path) else inputs)
        plain = _plain_outputs(opened, arrays, chosen)
        header = {**noted_input(), "onnx": _about(opened, chosen, optimize)}
        trace = TraceWriter(trace_path(path), producer=_producer(), header=header, overwrite=overwrite)
        writer = QueueWriter(trace)
        session = Session(writer, Filters(include, exclude))
        run = _Run(opened, session, params, chosen, optimize, on_progress)
        try:
            run.capture(arrays, part_bytes)
            optimized = run.compare_with(plain)
            writer.finish()
            if writer.error is not None:
                raise writer.error
        except BaseException as error:
            writer.finish()
            trace.abandon(f"{type(error).__name__}: {error}")
            raise
        trace.close(**session.summary(), optimized=optimized)
        if far := {name: apart for name, apart in optimized.items() if not apart <= _SAME}:
            moved = _moved_by_rounding(opened, arrays, plain, chosen, run.eps)
            _warn({name: apart for name, apart in far.items() if not apart <= _NUDGES * max(moved[name], run.eps)})
    return Captured(trace.path, session.tensors, optimized, tuple(session.surprises()))


@final
class _Run:
    """One model on its way through the runtime. It is what `Parts` asks about values that were computed."""

    def __init__(
        self,
        model: OnnxModel,
        session: Session,
        params: Params,
        provider: str,
        optimize: bool,
        on_progress: Callable[[int, int], None] | None,
    ) -> None:
        self._model = model
        self._recorder = ValueRecorder(model, session, params, provider)
        self._provider = provider
        self._optimize = optimize
        self._on_progress = on_progress or (lambda _done, _total: None)
        self._held: dict[str, onnxruntime.OrtValue] = {}
        self.eps = dtypes.eps_of(np.dtype(np.float32))  # of the coarsest values

    def type_of(self, name: str) -> onnx.TypeProto:
        given = next((item.type for item in self._model.proto.graph.input if item.name == name), None)
        return given if given is not None else type_of(self._held[name])

    def is_true(self, name: str) -> bool:
        array = array_of(self._held[name])
        return array is not None and bool(array.reshape(-1)[0])

    def capture(self, inputs: Mapping[str, np.ndarray], part_bytes: int) -> None:
        self._held = {name: value_of(array) for name, array in inputs.items()}
        self._recorder.record_inputs(inputs)
        total = len(self._model.proto.graph.node)
        sizes = value_bytes(self._model, {name: array.shape for name, array in inputs.items()})
        parts = Parts(self._model, sizes, part_bytes)
        self._given_as_inputs(inputs, parts)
        self._on_progress(0, total)
        for part in parts.run(self):
            self._recorder.record_params(part)
            self._run_part(part)
            self._on_progress(round(part.done * total), total)

    def compare_with(self, plain: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Record the outputs of the plain run, and measure how far they are from the exposed one's."""
        found: dict[str, float] = {}
        for name, array in plain.items():
            held = self._held.get(name)
            exposed = array_of(held) if held is not None else None
            apart = self._recorder.record_optimized(name, exposed, array) if exposed is not None else None
            if apart is not None:
                found[name] = apart
        return found

    def _given_as_inputs(self, inputs: Mapping[str, np.ndarray], parts: Parts) -> None:
        """Old models list weights among their inputs; one that is given replaces the stored one."""
        for name in inputs:
            parts.weights.pop(name, None)

    def _run_part(self, part: Part) -> None:
        session = make_session(self._model, self._provider, part=part.model, optimize=self._optimize)
        feeds = {name: self._held[name] for name in part.feeds}
        results = run_session(session, [value.name for value in part.values], feeds, self._model.path)
        for value, result in zip(part.values, results, strict=True):
            self._held[value.name] = result
            array = array_of(result)
            if array is not None:
                self.eps = max(self.eps, dtypes.eps_of(array.dtype))
            self._recorder.record(value, array, result.data_type())
        self._held = {
            name: held for name, held in self._held.items() if name in part.kept or name not in self._seen(part)
        }

    def _seen(self, part: Part) -> set[str]:
        return {*part.feeds, *(value.name for value in part.values)}


@contextmanager
def _on_disk(model: str | Path | onnx.ModelProto) -> Iterator[Path]:
    """The file of a model; one that is in memory is written for as long as it is needed."""
    if isinstance(model, str | Path):
        yield Path(model)
        return
    with tempfile.TemporaryDirectory(prefix="firstdiff-") as folder:
        import onnx

        onnx.save_model(model, Path(folder) / "model.onnx")
        yield Path(folder) / "model.onnx"


def _plain_outputs(model: OnnxModel, inputs: Mapping[str, np.ndarray], provider: str) -> dict[str, np.ndarray]:
    """Run the untouched file, optimised as the runtime does by default."""
    session = make_session(model, provider, optimize=True)
    names = [output.name for output in session.get_outputs() if output.type.startswith("tensor(")]
    results = run_session(session, names, {name: value_of(array) for name, array in inputs.items()}, model.path)
    found = {name: array_of(value) for name, value in zip(names, results, strict=True)}
    return {name: array.copy() for name, array in found.items() if array is not None}


def _moved_by_rounding(
    model: OnnxModel, inputs: Mapping[str, np.ndarray], plain: Mapping[str, np.ndarray], provider: str, eps: float
) -> dict[str, float]:
    """Return how far the outputs of the plain run move when inputs are nudged by `eps`, in standard deviations."""
    signs = np.random.default_rng(0)
    nudged = {
        name: (array * (1 + eps * signs.choice((-1, 1), array.shape))).astype(array.dtype)
        if dtypes.kind_of(array.dtype) == "float"
        else array
        for name, array in inputs.items()
    }
    moved = _plain_outputs(model, nudged, provider)
    return {name: distance(array, moved[name]) for name, array in plain.items()}


def _warn(far: Mapping[str, float]) -> None:
    """Warn of outputs that the optimised model gives otherwise, by more than rounding on the way makes."""
    if far:
        name = max(far, key=lambda key: far[key])
        warnings.warn(
            f"the untouched, optimised model gives another {name} ({far[name]:.3g} standard deviations away): what is "
            "wrong with one of the two runs does not show in the other",
            CaptureWarning,
            stacklevel=3,
        )


def _about(model: OnnxModel, provider: str, optimize: bool) -> dict[str, Any]:
    return {
        "model": model.path.name,
        "opset": model.opsets.get("", 0),
        "producer": f"{model.proto.producer_name} {model.proto.producer_version}".strip(),
        "nodes": len(model.proto.graph.node),
        "provider": provider,
        "optimize": optimize,
    }


def _producer() -> dict[str, Any]:
    import onnxruntime

    return producer(onnxruntime=onnxruntime.__version__)
