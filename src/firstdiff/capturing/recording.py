"""Record named values of any program: `fd.record`."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Mapping
from numbers import Number
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self, TypeVar, final

import numpy as np

from firstdiff import __version__, dtypes
from firstdiff.capturing import taps
from firstdiff.capturing.arguments import parts_of_value
from firstdiff.capturing.session import Filters, Place, Session
from firstdiff.errors import UsageError, did_you_mean
from firstdiff.trace import ROLES, Record, Role, TraceWriter

_WANTED = "an array, a tensor, a number, or lists and dicts of these"


def is_array(value: Any) -> bool:
    """True if a value is one array rather than a container of several."""
    if isinstance(value, list | tuple):
        while isinstance(value, list | tuple) and value:
            value = value[0]
        return isinstance(value, list | tuple | Number | np.generic)
    return isinstance(value, Number | np.ndarray | np.generic) or _converts(value)


def as_array(name: str, value: Any) -> np.ndarray:
    """A copy of the values as they are now, in native byte order; UsageError names what cannot be copied."""
    try:
        array = _copied(value)
    except (TypeError, ValueError, RuntimeError, BufferError, OverflowError) as error:
        raise UsageError(f"{name} cannot be recorded: {type(value).__name__} gives no array ({error})") from error
    if not dtypes.is_supported(array.dtype):
        raise UsageError(f"{name} cannot be recorded: it has elements of type {array.dtype}; give {_WANTED}")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def no_array(name: str, value: Any) -> UsageError:
    return UsageError(f"{name} cannot be recorded: it is of type {type(value).__name__}; give {_WANTED}")


def _copied(value: Any) -> np.ndarray:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        from firstdiff.capturing.snapshots import CopyRule, UnreadableTensorError

        try:
            with torch._C.DisableTorchFunction():
                return CopyRule().copy(value).array
        except UnreadableTensorError as error:
            raise ValueError(f"it is {error}") from error
    if hasattr(value, "__array__") or not hasattr(value, "__dlpack__"):
        return np.array(value, order="C")
    return np.array(np.from_dlpack(value), order="C")


def _converts(value: Any) -> bool:
    return not isinstance(value, type) and (hasattr(value, "__array__") or hasattr(value, "__dlpack__"))


T = TypeVar("T")


def record(
    path: str | Path | None = None,
    *,
    overwrite: bool = False,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    seed: int | None = None,
    metadata: Mapping[str, Any] | None = None,
    rank: int = 0,
    world: int = 1,
) -> Recording:
    """A recording of values that code hands over with `tap`; use it in a `with` statement.

    >>> with record("mine.trace") as rec:      # doctest: +SKIP
    ...     rec.tap("mel", mel)

    path: the folder to write; left out, the environment variable FIRSTDIFF_TRACE names it, and while that is unset
        taps record nothing and copy nothing
    overwrite: replace a trace that is there
    include, exclude: globs over names (FIRSTDIFF_ONLY in the environment narrows them further)
    seed: noted in trace.json
    metadata: whatever both runs must agree on, such as {"vocab_size": 320}; noted in trace.json
    rank, world: which process of how many this is
    """
    chosen = path if path is not None else os.environ.get("FIRSTDIFF_TRACE")
    folder = None if not chosen and path is None else trace_path(chosen)
    stated = {"seed": seed, "metadata": None if metadata is None else dict(metadata)}
    header = {name: value for name, value in stated.items() if value is not None}
    return Recording(folder, Filters(include, exclude), overwrite, header, rank, world)


@final
class Recording:
    """A recording made by `record`. Values are on disk when `tap` returns; threads may tap at the same time.

    path: the folder that is written; None where FIRSTDIFF_TRACE is unset and nothing is recorded
    input: what FIRSTDIFF_INPUT names, the inputs of this run; None where it is unset
    """

    def __init__(
        self, path: Path | None, filters: Filters, overwrite: bool, header: Mapping[str, Any], rank: int, world: int
    ) -> None:
        self.path = path
        self.input = input_path()
        self._filters = filters
        self._overwrite = overwrite
        self._header = {**header, **noted_input()}
        self._place = (rank, world)
        self._trace: TraceWriter | None = None
        self._session: Session | None = None

    def tap(
        self,
        name: str,
        value: T,
        *,
        step: int | None = None,
        dims: str | None = None,
        role: Role = "tap",
        op: str | None = None,
        **attrs: Any,
    ) -> T:
        """Record a value under a name and give it back; see `firstdiff.tap`.

        role: "input" for what an operation is given, "param" for a weight; one name has calls of its own in each role
        op: the operation in torch's words, such as "Linear", with its settings among attrs: it is computed again from
            recorded inputs and weights to name a cause
        """
        if self.path is None:
            return value
        if role not in ROLES:
            raise UsageError(f"{name}: {role!r} is no role{did_you_mean(role, ROLES)}; it takes {', '.join(ROLES)}")
        if self._session is None:
            raise UsageError(f"{self.path} is not being recorded; tap inside `with record(…)`")
        if self._session.wants(name, role):
            step = step or 0
            counted = name if role in ("tap", "output") else f"{name}:{role}"
            within = name.rpartition(".")[0] or "root"  # as a module's, so that its weights are known as its own
            parent = within if op is not None or role in ("param", "buffer") else None
            place = Place(name, self._session.count_call(counted, step), step, op, parent)
            tap_arrays(self._session, place, value, dims, attrs, role)
        return value

    def __enter__(self) -> Self:
        if self.path is None:
            return self
        self._trace = TraceWriter(self.path, producer=producer(), header=self._header, overwrite=self._overwrite)
        rank, world = self._place
        self._session = Session(_DirectSink(self._trace), self._filters, rank=rank, world=world)
        taps.begin(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.path is None:
            return
        taps.end(self)
        assert self._trace is not None, "entered before it is left"
        self._session = None
        self._trace.__exit__(kind, error, trace)


def tap_arrays(
    session: Session, place: Place, value: Any, dims: str | None, attrs: Mapping[str, Any], role: Role = "tap"
) -> None:
    """Record whatever turns into arrays; the members of a container each get a slot."""
    found = parts_of_value(value, is_array).tensors
    if not found:
        raise no_array(place.name, value)
    for slot, array in [(slot, as_array(place.name, item)) for slot, item in found]:
        session.emit(place, role, array, slot=slot, attrs=attrs, dims=dims)


def trace_path(path: str | Path | None) -> Path:
    """The folder to write: as given, or as FIRSTDIFF_TRACE says."""
    chosen = path if path is not None else os.environ.get("FIRSTDIFF_TRACE")
    if not chosen:
        raise UsageError("there is no place to record to; give a path, or set FIRSTDIFF_TRACE in the environment")
    return Path(chosen)


def input_path() -> Path | None:
    """The inputs of this run, as FIRSTDIFF_INPUT names them."""
    named = os.environ.get("FIRSTDIFF_INPUT")
    return Path(named) if named else None


def noted_input() -> dict[str, str]:
    """Return the `input` field of trace.json, if FIRSTDIFF_INPUT is set."""
    named = input_path()
    return {} if named is None else {"input": str(named)}


def producer(**more: Any) -> dict[str, Any]:
    """Return the `producer` field of trace.json."""
    return {"name": "firstdiff", "version": __version__, "python": platform.python_version(), **more}


@final
class _DirectSink:
    def __init__(self, trace: TraceWriter) -> None:
        self._trace = trace
        self._lock = Lock()

    def put(self, record: Record, values: np.ndarray | int) -> None:
        with self._lock:
            assert isinstance(values, np.ndarray), "taps bring their own values"
            self._trace.write(record, values)
