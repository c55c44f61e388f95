"""Measure the noise floor of a model by running it again with nudged inputs."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from firstdiff import dtypes
from firstdiff.capturing.arguments import parts_of_call
from firstdiff.capturing.options import Options
from firstdiff.capturing.saved_calls import SavedCalls, mapped
from firstdiff.capturing.session import Session
from firstdiff.capturing.tensor_recorder import is_tensor
from firstdiff.capturing.watch import Watch
from firstdiff.measure.noise_floor import Spread, spread_between
from firstdiff.trace import LINES, Key, Record

if TYPE_CHECKING:
    import torch

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def float_inputs(arguments: Arguments) -> bool:
    """True if a call has any floating-point tensor argument."""
    return any(tensor.is_floating_point() for _, tensor in parts_of_call(*arguments, is_tensor).tensors)


def moved_by_one_ulp(arguments: Arguments) -> Arguments:
    """Every floating-point element up or down by one unit in the last place."""
    args, kwargs = mapped(arguments, lambda tensor: nudged(tensor) if tensor.is_floating_point() else tensor)
    return args, kwargs


def in_float64(arguments: Arguments) -> Arguments:
    args, kwargs = mapped(arguments, lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)
    return args, kwargs


@contextmanager
def nudged_embeddings(model: torch.nn.Module) -> Iterator[int]:
    """Perturb the outputs of a model's embeddings instead, for models with integer inputs; yields their number."""
    import torch

    modules = [module for module in model.modules() if isinstance(module, torch.nn.Embedding)]
    handles = [module.register_forward_hook(lambda _module, _args, result: nudged(result)) for module in modules]
    try:
        yield len(modules)
    finally:
        for handle in handles:
            handle.remove()


def nudged(tensor: torch.Tensor) -> torch.Tensor:
    """One unit in the last place up or down, by a fixed pattern; what is 0 or not finite stays."""
    import torch

    if tensor.element_size() == 1:
        return tensor  # in fp8 one unit is up to an eighth of the value, which does matter
    carrier = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    plain = tensor.detach().cpu().contiguous()
    pattern = torch.Generator().manual_seed(0)
    steps = torch.randint(0, 2, plain.shape, generator=pattern, dtype=carrier) * 2 - 1
    moved = (plain.view(carrier) + steps).view(plain.dtype)
    kept = (plain == 0) | ~torch.isfinite(plain) | ~torch.isfinite(moved)
    return torch.where(kept, plain, moved).to(tensor.device).requires_grad_(tensor.requires_grad)


_ASSUMED = 4 << 30


def memory_left() -> int:
    """Bytes that may be taken without hurting others: half of what is free, or 2 GiB where the system does not say."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        free = _ASSUMED
    return free // 2


_REPEATABLE = 16  # in eps: how far the same call may stray before the model counts as random


@dataclass(slots=True)
class Floors:
    """Noise floors by line, the ways they were measured in, and what kept others from being tried."""

    by_line: dict[int, dict[str, Any]] = field(default_factory=dict)
    how: list[str] = field(default_factory=list)
    not_measured: list[str] = field(default_factory=list)

    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = {"how": self.how, "tensors": len(self.by_line)}
        return found | ({"not_measured": self.not_measured} if self.not_measured else {})


def measure_floors(
    model: torch.nn.Module, saved: SavedCalls, calls_before: Mapping[str, int], path: Path, options: Options
) -> Floors:
    """Repeat the saved calls on a copy of the model: as they were, on another number of threads, with inputs
    moved by one unit in the last place, and in float64; and compare with what is in the trace.

    calls_before: how often which module had been called on its own before the model was
    """
    floors = Floors()
    if saved.missed:
        floors.not_measured.append(saved.missed)
    if not saved.calls:
        floors.not_measured.append("there is no noise floor: the model itself was not called")
        return floors
    try:
        twin = _twin(model)
    except _NotMeasured as reason:
        floors.not_measured.append(f"there is no noise floor: {reason}")
        return floors
    options = replace(options, params="none", grads=False)
    _Repeats(twin, saved, calls_before, _recorded(path), options).run(floors)
    return floors


class _NotMeasured(Exception):  # noqa: N818
    """A way that could not be gone; the text says why."""


@final
class _Repeats:
    def __init__(
        self,
        twin: torch.nn.Module,
        saved: SavedCalls,
        calls_before: Mapping[str, int],
        recorded: dict[Key, _Line],
        options: Options,
    ) -> None:
        self._twin = twin
        self._saved = saved
        self._calls_before = calls_before
        self._recorded = recorded
        self._options = options
        self._spreads: dict[Key, Spread] = {}

    def run(self, floors: Floors) -> None:
        ways: list[tuple[str, Callable[[], dict[Key, Spread]]]] = [
            ("threads", self._other_threads),
            ("ulp", self._moved_inputs),
            ("float64", self._float64),
        ]
        try:
            self._widen(self._again())
        except _NotMeasured as reason:
            floors.not_measured.append(f"there is no noise floor: {reason}")
            return
        floors.how.append("repeat")
        for name, way in ways:
            try:
                self._widen(way())
            except _NotMeasured as reason:
                floors.not_measured.append(f"the noise floor is without {name}: {reason}")
            else:
                floors.how.append(name)
        floors.by_line |= {
            self._recorded[key].number: spread.to_floor(floors.how) for key, spread in self._spreads.items()
        }

    def _again(self) -> dict[Key, Spread]:
        sink = _SpreadSink(self._recorded)
        self._call(sink)
        if sink.strayed is not None:
            raise _NotMeasured(f"called again with the same inputs, {sink.strayed} has other values")
        return sink.spreads

    def _other_threads(self) -> dict[Key, Spread]:
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(1 if before > 1 else 2)
        try:
            return self._spread()
        finally:
            torch.set_num_threads(before)

    def _moved_inputs(self) -> dict[Key, Spread]:
        if any(float_inputs((call.args, call.kwargs)) for call in self._saved.calls):
            return self._spread(moved_by_one_ulp)
        with nudged_embeddings(self._twin) as count:
            if not count:
                raise _NotMeasured("the model takes no floating-point inputs and has no embeddings")
            return self._spread()

    def _float64(self) -> dict[Key, Spread]:
        needed = 2 * sum(tensor.numel() * 8 for tensor in self._twin.parameters())
        if needed > memory_left():
            raise _NotMeasured(f"it needs {needed >> 20:,} MiB of memory")
        self._twin.double()
        return self._spread(in_float64)

    def _spread(self, change: Callable[[Arguments], Arguments] | None = None) -> dict[Key, Spread]:
        sink = _SpreadSink(self._recorded)
        self._call(sink, change)
        return sink.spreads

    def _call(self, sink: _SpreadSink, change: Callable[[Arguments], Arguments] | None = None) -> None:
        session = Session(sink, self._options.filters, calls_before=self._calls_before)
        with _watched(Watch(self._twin, session, self._options)):
            for call in self._saved.calls:
                try:
                    with call.circumstances():
                        args, kwargs = change(call.fresh()) if change else call.fresh()
                        self._twin(*args, **kwargs)
                except Exception as error:
                    # whatever the model throws in circumstances it was not made for
                    raise _NotMeasured(f"the model throws {type(error).__name__}: {error}") from error
        if session.failure is not None:
            raise session.failure

    def _widen(self, spreads: dict[Key, Spread]) -> None:
        for key, spread in spreads.items():
            known = self._spreads.get(key)
            self._spreads[key] = spread if known is None else known.widened(spread)


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    file: Path
    dtype: str

    def values(self) -> np.ndarray:
        array: np.ndarray = np.load(self.file, mmap_mode="r")
        dtype = dtypes.from_name(self.dtype)
        return array.view(dtype) if dtypes.is_extended(dtype) else array


@final
class _SpreadSink:
    """Compares what it is given with what was recorded under the same key; `strayed` is the first that is far off."""

    def __init__(self, recorded: dict[Key, _Line]) -> None:
        self.spreads: dict[Key, Spread] = {}
        self.strayed: Key | None = None
        self._recorded = recorded
        self._keys: dict[int | None, Key] = {}

    def put(self, record: Record, values: np.ndarray | int) -> None:
        key = record.key
        self._keys[record.seq] = key
        line = self._recorded.get(key)
        if isinstance(values, int):
            known = self.spreads.get(self._keys[values])
            if line is not None and known is not None:
                self.spreads[key] = known
        elif line is not None:
            self._compare(key, line.values(), values)

    def _compare(self, key: Key, recorded: np.ndarray, values: np.ndarray) -> None:
        spread = spread_between(recorded, values)
        if spread is not None:
            self.spreads[key] = spread
            far = spread.relative > _REPEATABLE * dtypes.eps_of(recorded.dtype)
        else:
            far = not np.array_equal(recorded, values)
        if far and self.strayed is None:
            self.strayed = key


def _recorded(path: Path) -> dict[Key, _Line]:
    found = {}
    with (path / LINES).open(encoding="utf-8") as lines:
        for number, text in enumerate(lines):
            line = json.loads(text)
            record = Record.from_line(line)
            if record.role not in ("param", "buffer", "grad"):
                found[replace(record.key, rank=0)] = _Line(number, path / line["file"], line["dtype"])
    return found


def _twin(model: torch.nn.Module) -> torch.nn.Module:
    """A copy to experiment on: the model itself is left alone."""
    size = sum(tensor.numel() * tensor.element_size() for tensor in model.parameters())
    if size > memory_left():
        raise _NotMeasured(f"a copy of the model needs {size >> 20:,} MiB of memory")
    try:
        return copy.deepcopy(model)
    except Exception as error:
        # a model may hold anything: locks, handles, generators
        raise _NotMeasured(f"the model cannot be copied ({type(error).__name__}: {error})") from error


@contextmanager
def _watched(watch: Watch) -> Iterator[None]:
    watch.start()
    try:
        yield
    finally:
        watch.stop()
