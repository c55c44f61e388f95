"""`capture_onnx`: a trace of every value that a model computes in onnxruntime."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, final

import numpy as np

from firstdiff import dtypes
from firstdiff.capturing.filters import Filters
from firstdiff.capturing.limits import CaptureWarning
from firstdiff.capturing.onnx_file import OnnxModel, need_onnx, open_model
from firstdiff.capturing.onnx_graph import (
    PART_BYTES,
    Part,
    Parts,
    Value,
    attributes_of,
    has_hidden_values,
    torch_origin,
    value_bytes,
)
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
from firstdiff.capturing.parameters import SMALL_BYTES, TOTAL_BYTES
from firstdiff.capturing.queue_writer import QueueWriter
from firstdiff.capturing.recording import noted_input, producer, trace_path
from firstdiff.capturing.session import Place, Session
from firstdiff.trace import TraceWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx
    import onnxruntime

Params = Literal["auto", "small", "all", "none"]
# beyond this share of an output's deviation the optimised run is another computation, and not another order of sums
_SAME = 1e-3


class Captured(NamedTuple):
    """What `capture_onnx` wrote.

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
        run = _Run(opened, session, chosen, optimize, on_progress)
        try:
            run.capture(arrays, params, part_bytes)
            optimized = run.compare_with(plain)
            writer.finish()
            if writer.error is not None:
                raise writer.error
        except BaseException as error:
            writer.finish()
            trace.abandon(f"{type(error).__name__}: {error}")
            raise
        trace.close(**session.summary(), optimized=optimized)
    _warn(optimized)
    return Captured(trace.path, session.tensors, optimized, tuple(session.surprises()))


@final
class _Run:
    """One model on its way through the runtime. It is what `Parts` asks about values that were computed."""

    def __init__(
        self,
        model: OnnxModel,
        session: Session,
        provider: str,
        optimize: bool,
        on_progress: Callable[[int, int], None] | None,
    ) -> None:
        self._model = model
        self._session = session
        self._provider = provider
        self._optimize = optimize
        self._on_progress = on_progress or (lambda _done, _total: None)
        self._held: dict[str, onnxruntime.OrtValue] = {}
        self._seq: dict[str, int] = {}
        self._params: set[str] = set()
        self._limit = 0
        self._graph_name = model.proto.graph.name or "graph"

    def type_of(self, name: str) -> onnx.TypeProto:
        given = next((item.type for item in self._model.proto.graph.input if item.name == name), None)
        return given if given is not None else type_of(self._held[name])

    def is_true(self, name: str) -> bool:
        array = array_of(self._held[name])
        return array is not None and bool(array.reshape(-1)[0])

    def capture(self, inputs: Mapping[str, np.ndarray], params: Params, part_bytes: int) -> None:
        for name, array in inputs.items():
            self._held[name] = value_of(array)
            self._seq[name] = self._session.emit(Place(name), "input", array)
        self._limit = _largest_recorded(self._model, params)
        total = len(self._model.proto.graph.node)
        sizes = value_bytes(self._model, {name: array.shape for name, array in inputs.items()})
        parts = Parts(self._model, sizes, part_bytes)
        self._given_as_inputs(inputs, parts)
        self._on_progress(0, total)
        for part in parts.run(self):
            self._record_params(part)
            self._run_part(part)
            self._on_progress(round(part.done * total), total)

    def compare_with(self, plain: Mapping[str, np.ndarray]) -> dict[str, float]:
        """Record the outputs of the plain run, and measure how far they are from the exposed one's."""
        found: dict[str, float] = {}
        for name, array in plain.items():
            held = self._held.get(name)
            exposed = array_of(held) if held is not None else None
            if exposed is None or not self._session.wants(name, "output"):
                continue
            sources = (self._seq[name],) if name in self._seq else ()
            self._session.emit(Place(name), "output", array, slot="optimized", sources=sources)
            found[name] = _distance(exposed, array)
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
            self._record(value, result)
        self._held = {
            name: held for name, held in self._held.items() if name in part.kept or name not in self._seen(part)
        }

    def _seen(self, part: Part) -> set[str]:
        return {*part.feeds, *(value.name for value in part.values)}

    def _record(self, value: Value, result: onnxruntime.OrtValue) -> None:
        if has_hidden_values(value.node) and value.output == 0:
            self._session.skip(
                value.name, f"what runs inside a {value.node.op_type} is not recorded, only what it gives"
            )
        if not self._session.wants(value.name, "output"):
            return
        array = array_of(result)
        if array is None:
            self._session.skip(value.name, f"{result.data_type()} is no tensor of numbers")
            return
        known = {slot: name for slot, name in value.inputs.items() if name in self._seq}
        weights = {slot: name for slot, name in value.inputs.items() if name in self._params}
        attrs: dict[str, Any] = {
            **attributes_of(value.node),
            "opset": self._model.opsets.get(value.node.domain.replace("ai.onnx", ""), 1),
            "node": value.node.name,
            **({"output": value.output, "outputs": outputs} if (outputs := len(value.node.output)) > 1 else {}),
            **({"inputs": list(known)} if known else {}),
            **({"params": weights} if weights else {}),
            **torch_origin(value.node),
        }
        domain = value.node.domain
        op = value.node.op_type if domain in ("", "ai.onnx") else f"{domain}:{value.node.op_type}"
        place = Place(value.name, op=op, parent=value.inside[-1] if value.inside else self._graph_name)
        sources = tuple(self._seq[name] for name in known.values())
        self._seq[value.name] = self._session.emit(place, "output", array, attrs=attrs, sources=sources)

    def _record_params(self, part: Part) -> None:
        """Record the weights of a part before what is computed with them, each once."""
        for tensor in part.model.graph.initializer:
            if tensor.name in self._params:
                continue
            self._params.add(tensor.name)
            array = self._model.array(tensor)
            if array is None:
                self._session.skip(tensor.name, "weights of types that numpy does not have")
            elif array.nbytes <= self._limit and self._session.wants(tensor.name, "param"):
                self._seq[tensor.name] = self._session.emit(Place(tensor.name), "param", array)


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
    """What the untouched file gives, optimised as the runtime does by default."""
    session = make_session(model, provider, optimize=True)
    names = [output.name for output in session.get_outputs() if output.type.startswith("tensor(")]
    results = run_session(session, names, {name: value_of(array) for name, array in inputs.items()}, model.path)
    found = {name: array_of(value) for name, value in zip(names, results, strict=True)}
    return {name: array.copy() for name, array in found.items() if array is not None}


def _distance(exposed: np.ndarray, plain: np.ndarray) -> float:
    """The greatest difference, in standard deviations; infinite where shapes or non-finite values differ."""
    if exposed.shape != plain.shape:
        return float("inf")
    one, two = dtypes.doubles(exposed), dtypes.doubles(plain)
    with np.errstate(invalid="ignore"):
        differences = np.where((one == two) | (np.isnan(one) & np.isnan(two)), 0.0, np.abs(one - two))
    if not differences.size or not differences.any():
        return 0.0
    finite = one[np.isfinite(one)]
    spread = float(np.std(finite)) if finite.size else 0.0
    worst = float(np.max(differences))
    return worst / spread if spread and np.isfinite(worst) else float("inf") if not np.isfinite(worst) else worst


def _warn(optimized: Mapping[str, float]) -> None:
    far = {name: distance for name, distance in optimized.items() if not distance <= _SAME}
    if far:
        name = max(far, key=lambda key: far[key])
        warnings.warn(
            f"the untouched, optimised model gives another {name} ({far[name]:.3g} standard deviations away): what is "
            "wrong with one of the two runs does not show in the other",
            CaptureWarning,
            stacklevel=3,
        )


def _largest_recorded(model: OnnxModel, params: Params) -> int:
    """Bytes up to which a weight is recorded."""
    if params in ("none", "all"):
        return -1 if params == "none" else 1 << 62
    sizes = [array.nbytes for tensor in model.weights.values() if (array := model.array(tensor)) is not None]
    return 1 << 62 if params == "auto" and sum(sizes) <= TOTAL_BYTES else SMALL_BYTES


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
