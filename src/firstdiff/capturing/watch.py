"""Install and remove everything that records one model: hooks, function mode, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, final

from firstdiff.capturing import taps
from firstdiff.capturing.functions import FunctionCalls
from firstdiff.capturing.module_calls import Frames, ModuleCalls, ModuleHooks
from firstdiff.capturing.module_tree import Node, held_tensors, nodes_of, record_parameters
from firstdiff.capturing.options import Options
from firstdiff.capturing.recording import tap_arrays
from firstdiff.capturing.session import Place, Session
from firstdiff.capturing.tensor_recorder import Gradients, TensorRecorder, is_tensor

if TYPE_CHECKING:
    import torch

T = TypeVar("T")


@final
class Watch:
    """Hooks on modules and gradients, a mode for functions, taps; nothing of them outside `start` and `stop`.

    on_root: called with the arguments of each call of the model
    """

    def __init__(
        self,
        model: torch.nn.Module,
        session: Session,
        options: Options,
        on_root: Callable[[tuple[Any, ...], dict[str, Any]], None] | None = None,
    ) -> None:
        self.nodes = nodes_of(model)
        self.root = self._root()
        self._recorder = TensorRecorder(session, options.rule)
        self._frames = Frames()
        self.params_left_out: list[str] = []
        self._session = session
        self._options = options
        self._gradients = Gradients(self._recorder, self._shielded)
        self.calls = ModuleCalls(
            *(self._recorder, self._frames, self.root),
            before_first=self._record_parameters,
            on_root=on_root,
            on_output=self._gradients.of_output if options.grads else None,
        )
        self._functions = (
            None
            if options.level == "module"
            else FunctionCalls(self._recorder, self._frames, options.level == "op", self._shielded)
        )
        suspend = self._functions.suspend if self._functions else lambda _: None
        self._hooks = ModuleHooks(self.nodes, self.calls, self._frames, self._shielded, suspend)

    def start(self) -> None:
        try:
            self._hooks.install()
        except BaseException:
            self._hooks.remove()
            raise
        if self._functions is not None:
            self._functions.start()
        taps.begin(self)

    def stop(self) -> None:
        taps.end(self)
        if self._functions is not None:
            self._functions.stop()
        self._hooks.remove()
        self._gradients.remove()

    def tap(self, name: str, value: T, *, step: int | None = None, dims: str | None = None, **attrs: Any) -> T:
        """Record a value that code hands over while the model is watched."""
        session = self._session
        if session.wants(name, "tap"):
            frame = self._frames.top()
            if step is None:
                step = frame.place.step if frame else session.step
            place = Place(name, session.count_call(name, step), step, parent=frame.node.name if frame else None)
            if is_tensor(value):
                tensor: torch.Tensor = value
                self._shielded(lambda: self._recorder.write(tensor, place, "tap", attrs=attrs, dims=dims))
            else:
                tap_arrays(session, place, value, dims, attrs)
        return value

    def summary(self) -> dict[str, Any]:
        """Return the fields of trace.json about the model."""
        found = {"root": self.root.name, "inputs": self.calls.inputs_digest, "left_out": self.params_left_out}
        return {name: value for name, value in found.items() if value}

    def _root(self) -> Node:
        """The module whose calls are the steps: the first that takes hooks."""
        return next(node for node in self.nodes if node.kind in ("watched", "compiled", "exported"))

    def _record_parameters(self) -> None:
        held = held_tensors(self.nodes, self.root.name)
        self.params_left_out = record_parameters(self._recorder, held, self._options.params)
        if self._options.grads:
            self._gradients.of_parameters((item.name, item.tensor) for item in held if item.role == "param")

    def _shielded(self, step: Callable[[], object]) -> None:
        """Run a step of ours: unseen by modes, and whatever it throws ends the recording, not the model."""
        import torch

        if self._session.failure is not None:
            return
        try:
            with torch._C.DisableTorchFunction():
                step()
        except Exception as error:
            self._session.fail(error)
