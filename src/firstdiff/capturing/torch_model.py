"""Record a torch model: `fd.capture`."""

from __future__ import annotations

import logging
import warnings
import weakref
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, final

from firstdiff.capturing.module_tree import Node, Params, nodes_of
from firstdiff.capturing.options import Level, Options, checked
from firstdiff.capturing.queue_writer import WAITING_BYTES, QueueWriter
from firstdiff.capturing.recording import noted_input, producer, trace_path
from firstdiff.capturing.saved_calls import SavedCalls
from firstdiff.capturing.session import Filters, Session
from firstdiff.capturing.watch import Watch
from firstdiff.errors import FirstdiffError, UsageError, WriteError
from firstdiff.trace import TraceWriter

if TYPE_CHECKING:
    import torch

_lock = Lock()
_captured: weakref.WeakKeyDictionary[torch.nn.Module, Path] = weakref.WeakKeyDictionary()


def claim(model: torch.nn.Module, path: Path) -> None:
    """Take a model with all its modules; UsageError if one of them is taken."""
    with _lock:
        modules = list(model.modules())
        for module in modules:
            if module in _captured:
                raise UsageError(
                    f"{type(module).__name__} is being captured already, to {_captured[module]}; "
                    "end that capture before starting another of the same model"
                )
        for module in modules:
            _captured[module] = path


def release(path: Path) -> None:
    """Give back what was claimed for a path."""
    with _lock:
        for module in [module for module, claimed in _captured.items() if claimed is path]:
            del _captured[module]


class CaptureWarning(UserWarning):
    """A capture records less than one would think, or not quite what an unwatched run computes."""


def limits_of(nodes: Sequence[Node]) -> list[str]:
    """Return one warning for each kind of limit found."""
    compiled = [node.name for node in nodes if node.kind == "compiled"]
    exported = [node.name for node in nodes if node.kind == "exported"]
    scripted = [node.name for node in nodes if node.kind == "scripted"]
    fused = _fused(nodes)
    found = []
    if compiled:
        found.append(
            f"{_listed(compiled)} is compiled, so only what goes in and what comes out is recorded; "
            "capture the model without torch.compile to see inside"
        )
    if exported:
        found.append(
            f"{_listed(exported)} is one exported graph, so only what goes in and what comes out is recorded; "
            "export with preserve_module_call_signature and capture torch.export.unflatten(…) to see inside"
        )
    if scripted:
        found.append(f"{_listed(scripted)} is TorchScript, which takes no hooks, and is not recorded")
    if fused:
        found.append(
            f"{_listed(fused)} may take torch's fused path when nobody watches; "
            "while captured it takes the plain one, whose last bits can differ"
        )
    return found


def _fused(nodes: Sequence[Node]) -> list[str]:
    """Return the names of torch.nn transformer layers in eval mode: hooks make them leave their fused path."""
    import torch

    if not torch.backends.mha.get_fastpath_enabled():
        return []
    kinds = (torch.nn.MultiheadAttention, torch.nn.TransformerEncoderLayer, torch.nn.TransformerEncoder)
    return [
        node.name
        for node in nodes
        if node.kind == "watched" and isinstance(node.module, kinds) and not node.module.training
    ]


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} (and {len(names) - 1} more)"


T = TypeVar("T")
_log = logging.getLogger("firstdiff")


def capture(
    model: torch.nn.Module,
    path: str | Path | None = None,
    *,
    level: Level = "function",
    params: Params = "auto",
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    roles: Iterable[str] | None = None,
    max_bytes: int | None = None,
    tokens: slice | str | None = None,
    dtype: Any = None,
    grads: bool = False,
    floor: bool = False,
    overwrite: bool = False,
    seed: int | None = None,
    inputs: str | None = None,
    queue_bytes: int = WAITING_BYTES,
) -> Capture:
    """Record what a torch model computes, in a `with` statement around its calls.

    >>> with capture(model, "ref.trace"):      # doctest: +SKIP
    ...     model(x)

    model: any torch.nn.Module
    path: the folder to write; `{rank}` in it becomes the rank; left out, FIRSTDIFF_TRACE names it
    level: "module" records inputs and outputs of modules, "function" also named functions inside them (softmax,
        attention, adds), "op" every torch function that gives back tensors
    params: parameters and buffers: all while they total at most 256 MiB, else those up to 64 KiB each ("auto"); those
        up to 64 KiB ("small"), "all" or "none"
    include, exclude: globs over names; FIRSTDIFF_ONLY in the environment narrows them further
    roles: which of input, output, param, buffer, grad, tap; all if left out
    max_bytes: leave out tensors larger than this
    tokens: keep only this part of the sequence axis, such as `slice(0, 8)` or "-1:"
    dtype: store floating-point tensors as this type; otherwise each keeps its own
    grads: also record gradients of outputs and parameters as `backward` computes them
    floor: on leaving, repeat the calls in ways that should not matter, and store how far each tensor moves
    overwrite: replace a trace that is there
    seed, inputs: noted in trace.json; `inputs` is a digest of the first call's tensors if left out
    queue_bytes: how much may wait in memory to be written
    """
    options = checked(
        level=level,
        params=params,
        filters=Filters(include, exclude, roles),
        max_bytes=max_bytes,
        tokens=tokens,
        dtype=dtype,
        grads=grads,
    )
    noted = {name: value for name, value in (("seed", seed), ("inputs", inputs)) if value is not None}
    return Capture(
        _checked_model(model), trace_path(path), options, floor, overwrite, noted | noted_input(), queue_bytes
    )


@final
class Capture:
    """The context manager that `capture` returns: records the model, and taps, between `__enter__` and `__exit__`."""

    def __init__(
        self,
        model: torch.nn.Module,
        path: Path,
        options: Options,
        floor: bool,
        overwrite: bool,
        noted: dict[str, Any],
        queue_bytes: int,
    ) -> None:
        self._rank, self._world = _rank_and_world()
        self.path = Path(str(path).replace("{rank}", str(self._rank)))
        self._model = model
        self._options = options
        self._floor = floor
        self._overwrite = overwrite
        self._noted = noted
        self._queue_bytes = queue_bytes

    @property
    def tensors(self) -> int:
        """The number of tensors recorded so far."""
        return self._session.tensors

    def tap(self, name: str, value: T, *, step: int | None = None, dims: str | None = None, **attrs: Any) -> T:
        """Record a value of one's own between those of the model; see `firstdiff.tap`."""
        return self._watch.tap(name, value, step=step, dims=dims, **attrs)

    def __enter__(self) -> Self:
        limits = limits_of(nodes_of(self._model))
        for limit in limits:
            warnings.warn(limit, CaptureWarning, stacklevel=2)
        with ExitStack() as undo:
            claim(self._model, self.path)
            undo.callback(release, self.path)
            self._open(limits, undo)
            self._watch.start()
            undo.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._watch.stop()
        release(self.path)
        self._queue.finish()
        failure = self._failure()
        if error is not None:
            if failure is not None:
                _log.warning("%s: %s", self.path, failure)
            self._abandon(f"{type(error).__name__}: {error}")
        elif failure is not None:
            self._abandon(str(failure))
            raise failure
        else:
            try:
                notes = self._close()
            except BaseException as unfinished:
                self._abandon(f"{type(unfinished).__name__}: {unfinished}")
                raise
            for note in notes:
                warnings.warn(f"{self.path}: {note}", CaptureWarning, stacklevel=2)

    def _open(self, limits: list[str], undo: ExitStack) -> None:
        import torch

        self._saved = SavedCalls() if self._floor else None
        header = {"level": self._options.level, **self._noted} | ({"limits": limits} if limits else {})
        made_by = producer(torch=torch.__version__, model=type(self._model).__name__)
        self._trace = TraceWriter(self.path, producer=made_by, header=header, overwrite=self._overwrite)
        undo.callback(self._abandon, "the capture did not begin")
        self._queue = QueueWriter(self._trace, self._queue_bytes, beside=_computes_elsewhere(self._model))
        undo.callback(self._queue.finish)
        self._session = Session(self._queue, self._options.filters, rank=self._rank, world=self._world)
        self._watch = Watch(self._model, self._session, self._options, self._saved.save if self._saved else None)

    def _close(self) -> list[str]:
        """Finish the trace; returns what the user should hear of."""
        fields = self._watch.summary() | self._session.summary()
        notes = self._session.surprises()
        if not self._watch.calls.started:
            notes.append("no module of the model was called, so there is nothing in it")
        if self._saved is not None:
            found = fields["floor"] = self._add_floors(self._saved)
            notes += [] if found["tensors"] else found.get("not_measured", [])
        self._trace.close(**fields | self._noted)
        return notes

    def _add_floors(self, saved: SavedCalls) -> dict[str, Any]:
        from firstdiff.capturing.noise_floor import measure_floors

        found = measure_floors(self._model, saved, self._session.calls_before, self.path, self._options)
        self._trace.add_floors(found.by_line)
        return found.summary()

    def _abandon(self, reason: str) -> None:
        with suppress(WriteError):  # a disk that is full has been told of already
            self._trace.abandon(reason)

    def _failure(self) -> FirstdiffError | None:
        """Return the error of writing or copying tensors, as a FirstdiffError."""
        found = self._queue.error or self._session.failure
        if found is None or isinstance(found, FirstdiffError):
            return found
        failure = WriteError(f"the recording to {self.path} stopped ({type(found).__name__}: {found})")
        failure.__cause__ = found
        return failure


def _checked_model(model: Any) -> torch.nn.Module:
    import torch

    if isinstance(model, torch.jit.ScriptModule):
        raise UsageError("the model is TorchScript, which takes no hooks; capture the Python module it was made from")
    if not isinstance(model, torch.nn.Module):
        raise UsageError(
            f"capture takes a torch.nn.Module, not {type(model).__name__}; use record() and tap() for anything else"
        )
    return model


def _computes_elsewhere(model: torch.nn.Module) -> bool:
    return any(parameter.device.type != "cpu" for parameter in model.parameters())


def _rank_and_world() -> tuple[int, int]:
    import torch

    group = torch.distributed
    if not (group.is_available() and group.is_initialized()):
        return 0, 1
    return group.get_rank(), group.get_world_size()
