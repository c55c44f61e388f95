"""Record torch functions called inside modules: softmax, attention, residual adds, rotary embeddings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import local
from typing import TYPE_CHECKING, Any, final

from firstdiff.capturing.frames import Frames
from firstdiff.capturing.function_table import Function, describe
from firstdiff.capturing.session import Place
from firstdiff.capturing.slots import Parts, parts_of_call, parts_of_value
from firstdiff.capturing.tensor_recorder import TensorRecorder, is_tensor

if TYPE_CHECKING:
    from torch.overrides import TorchFunctionMode


@final
class FunctionCalls:
    """Watches functions while a module runs.

    every: record all functions that give back tensors, also those inside the leaves of torch.nn
    shielded: runs one of our own steps so that nothing it does or throws reaches the model
    """

    def __init__(
        self, recorder: TensorRecorder, frames: Frames, every: bool, shielded: Callable[[Callable[[], object]], None]
    ) -> None:
        self._recorder = recorder
        self._session = recorder.session
        self._frames = frames
        self._every = every
        self._shielded = shielded
        self._known: dict[Any, Function | None] = {}
        self._mode = _mode(self._call)
        self._aside = local()

    def start(self) -> None:
        self._mode.__enter__()  # type: ignore[no-untyped-call]

    def stop(self) -> None:
        """Take the mode off, if it is on (an interrupt inside compiled code leaves it off)."""
        if self._on_top():
            self._mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def suspend(self, off: bool) -> None:
        """Compiled code is compiled once more for every mode it meets; so ours steps aside, if it is the innermost."""
        if off:
            self._aside.on = self._on_top()
            self.stop()
        elif getattr(self._aside, "on", False):
            self._aside.on = False
            self.start()

    def _on_top(self) -> bool:
        from torch.overrides import _get_current_function_mode

        return _get_current_function_mode() is self._mode  # type: ignore[no-untyped-call]

    def _call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        event = self._event(function, kwargs)
        if event is None:
            return function(*args, **kwargs)
        if event.inplace:
            self._shielded(lambda: event.take_inputs(args, kwargs))
        result = function(*args, **kwargs)
        self._shielded(lambda: event.finish(args, kwargs, result))
        return result

    def _event(self, function: Callable[..., Any], kwargs: dict[str, Any]) -> _Event | None:
        frame = self._frames.top()
        if frame is None or (frame.node.leaf_of_torch and not self._every) or frame.node.kind == "compiled":
            return None
        try:
            known = self._known[function]
        except KeyError:
            known = self._known[function] = describe(function, self._every)
        except TypeError:
            return None  # a callable that cannot be hashed is none of torch's
        if known is None:
            return None
        name = f"{frame.node.name}.{known.name}"
        if not self._session.wants(name, "output"):
            return None
        place = Place(name, 0, frame.place.step, known.name, frame.node.name)
        return _Event(self._recorder, known, place, known.inplace or bool(kwargs.get("inplace")))


@final
class _Event:
    """One call of a function: its inputs are recorded unless the trace has them, its outputs name them in `from`."""

    __slots__ = ("_function", "_place", "_recorder", "_scalars", "_sources", "_taken", "inplace")

    def __init__(self, recorder: TensorRecorder, function: Function, place: Place, inplace: bool) -> None:
        self.inplace = inplace
        self._recorder = recorder
        self._function = function
        self._place = place
        self._taken = False
        self._sources: list[int] = []
        self._scalars: dict[str, Any] = {}

    def take_inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._taken = True
        call = self._recorder.session.count_call(self._place.name, self._place.step)
        self._place = replace(self._place, call=call)
        parts = parts_of_call((), self._function.arguments(args, kwargs), is_tensor)
        self._scalars = parts.scalars
        if self.inplace:
            self._scalars["inplace"] = True
        self._trace_back(parts)

    def finish(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        tensors = parts_of_value(result, is_tensor).tensors
        if not tensors:
            return
        if not self._taken:
            self.take_inputs(args, kwargs)
        for slot, tensor in tensors:
            self._recorder.write(tensor, self._place, "output", slot, attrs=self._scalars, sources=tuple(self._sources))

    def _trace_back(self, parts: Parts) -> None:
        """Fill `from`: one number for each slot in `inputs`; parameters are named whether recorded or not."""
        slots, views, params = [], [], {}
        for slot, tensor in parts.tensors:
            origin = self._recorder.provenance.find(tensor)
            if origin is not None and origin.param is not None:
                params[slot] = origin.param
                if not origin.exact:
                    views.append(slot)
                seq = origin.seq
            elif origin is not None and origin.exact:
                seq = origin.seq
            else:
                seq = self._recorder.write(tensor, self._place, "input", slot)
            if seq is not None:
                slots.append(slot)
                self._sources.append(seq)
        found = {"inputs": slots, "params": params, "views": views}
        self._scalars |= {name: value for name, value in found.items() if value}


def _mode(handle: Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]) -> TorchFunctionMode:
    from torch.overrides import TorchFunctionMode

    class Watching(TorchFunctionMode):
        def __torch_function__(
            self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
        ) -> Any:
            return handle(func, args, kwargs or {})

    return Watching()
