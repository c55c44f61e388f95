"""Calls of modules: hooks on every module, and the frames of calls in progress."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import local
from typing import TYPE_CHECKING, Any, Protocol, final

from firstdiff.capturing.arguments import Parts, parts_of_call, parts_of_value
from firstdiff.capturing.module_tree import Node
from firstdiff.capturing.session import Place
from firstdiff.capturing.snapshots import CopyRule, UnreadableTensorError
from firstdiff.capturing.tensor_recorder import TensorRecorder, is_tensor

if TYPE_CHECKING:
    import torch
    from torch.utils.hooks import RemovableHandle


@dataclass(frozen=True, slots=True)
class Frame:
    """One call of a module."""

    node: Node
    place: Place
    scalars: dict[str, Any]


@final
class Frames:
    """The stack of running calls of the thread that asks."""

    def __init__(self) -> None:
        self._of_thread = local()

    def push(self, frame: Frame) -> None:
        self._stack().append(frame)

    def pop(self, module: torch.nn.Module) -> Frame | None:
        """Leave the innermost call of a module, and those inside it that ended without saying so."""
        stack = self._stack()
        for depth in range(len(stack) - 1, -1, -1):
            if stack[depth].node.module is module:
                frame = stack[depth]
                del stack[depth:]
                return frame
        return None

    def top(self) -> Frame | None:
        stack = self._stack()
        return stack[-1] if stack else None

    def holds(self, node: Node) -> bool:
        return any(frame.node is node for frame in self._stack())

    def _stack(self) -> list[Frame]:
        try:
            return self._of_thread.frames  # type: ignore[no-any-return]
        except AttributeError:
            self._of_thread.frames = []
            return self._of_thread.frames  # type: ignore[no-any-return]


@final
class ModuleCalls:
    """Keeps the stack of running calls and records around them.

    before_first: called once, before anything else is recorded
    on_root: called with the arguments of each call of the model itself
    on_output: called with each tensor a module gives back, after it is recorded
    """

    def __init__(
        self,
        recorder: TensorRecorder,
        frames: Frames,
        root: Node,
        *,
        before_first: Callable[[], None],
        on_root: Callable[[tuple[Any, ...], dict[str, Any]], None] | None = None,
        on_output: Callable[[torch.Tensor, Place, str], None] | None = None,
    ) -> None:
        self.inputs_digest: str | None = None
        self._recorder = recorder
        self._session = recorder.session
        self._frames = frames
        self._root = root
        self._before_first = before_first
        self._on_root = on_root
        self._on_output = on_output
        self.started = False

    def enter(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any], final: bool = True) -> None:
        """A module is about to run with these arguments, unless (not `final`) a hook behind ours still changes them."""
        if not self.started:
            self.started = True
            self._before_first()
        parts = parts_of_call(args, kwargs, is_tensor)
        outer = self._frames.top()
        if outer is None:
            self._recorder.length = _length_of(parts)
        if node is self._root and not self._frames.holds(node):
            step = self._begin_step(args, kwargs, parts)
        else:
            step = outer.place.step if outer else self._session.step
        parent = outer.node.name if outer else _holder(node, self._root)
        place = Place(node.name, self._session.count_call(node.name, step), step, node.op, parent)
        self._frames.push(Frame(node, place, parts.scalars))
        if not final and parts.tensors and self._session.wants(node.name, "input"):
            self._session.skip(f"{node.name}:in", "given to a hook that was registered after the capture began")
            return
        for slot, tensor in parts.tensors:
            self._recorder.write(tensor, place, "input", slot)

    def leave(self, node: Node, result: Any) -> None:
        """A module has run; `result` is what its caller receives, or None if it threw."""
        frame = self._frames.pop(node.module)
        if frame is None:
            return
        tensors = parts_of_value(result, is_tensor).tensors
        if not tensors:
            return
        attrs = node.attributes() | _autocast(tensors[0][1])
        if frame.scalars:
            attrs["args"] = frame.scalars
        if node.kind in ("compiled", "exported"):
            attrs[node.kind] = True
        for slot, tensor in tensors:
            self._recorder.write(tensor, frame.place, "output", slot, attrs=attrs)
            if self._on_output is not None:
                self._on_output(tensor, frame.place, slot)

    def _begin_step(self, args: tuple[Any, ...], kwargs: dict[str, Any], parts: Parts) -> int:
        step = self._session.begin_step()
        if self.inputs_digest is None:
            self.inputs_digest = _digest(parts)
        if self._on_root is not None:
            self._on_root(args, kwargs)
        return step


def _length_of(parts: Parts) -> int | None:
    """The number of tokens: the second axis of the first input that has two or more."""
    return next((tensor.shape[1] for _, tensor in parts.tensors if tensor.ndim > 1), None)


def _holder(node: Node, root: Node) -> str | None:
    """The module that holds one which was called from outside."""
    return None if node is root else node.name.rpartition(".")[0] or root.name


def _autocast(tensor: torch.Tensor) -> dict[str, str]:
    import torch

    device = tensor.device.type
    try:
        active = torch.is_autocast_enabled(device)
    except RuntimeError:
        return {}  # a device without autocast
    return {"autocast": str(torch.get_autocast_dtype(device)).removeprefix("torch.")} if active else {}


def _digest(parts: Parts) -> str:
    """SHA-256 over type, shape and bytes of every tensor, in order; what they are called does not matter."""
    digest = hashlib.sha256()
    whole = CopyRule()
    for _, tensor in parts.tensors:
        with suppress(UnreadableTensorError):
            array = whole.copy(tensor).array
            digest.update(f"{array.dtype.name} {list(array.shape)}\n".encode())
            digest.update(array.tobytes())
    return f"sha256:{digest.hexdigest()}"


class CallWatcher(Protocol):
    """Told of every call of a hooked module."""

    def enter(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any], final: bool = True) -> None:
        """The module is about to run; not `final` if a hook behind ours may still change the arguments."""

    def leave(self, node: Node, result: Any) -> None:
        """The module has run, or thrown (the result is None then)."""


@final
class ModuleHooks:
    """Puts hooks on the watched and the compiled modules among `nodes`, and takes them off.

    shielded: runs one of our own steps so that nothing it does or throws reaches the model
    around_compiled: called with True before, and False after, code that torch.compile made
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        watcher: CallWatcher,
        frames: Frames,
        shielded: Callable[[Callable[[], object]], None],
        around_compiled: Callable[[bool], None],
    ) -> None:
        self._nodes = {node.module: node for node in nodes if node.kind in ("watched", "compiled", "exported")}
        self._watcher = watcher
        self._frames = frames
        self._shielded = shielded
        self._around_compiled = around_compiled
        self._handles: list[RemovableHandle] = []
        self._last: dict[torch.nn.Module, tuple[int, int]] = {}
        self._compiled_in_place: list[tuple[torch.nn.Module, Callable[..., Any]]] = []

    def install(self) -> None:
        # plain functions: a model that is deep-copied meanwhile must not copy the recording with it
        def before(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._before(module, args, kwargs)

        def after(module: torch.nn.Module, _args: Any, _kwargs: Any, result: Any) -> None:
            self._after(module, result)

        for node in self._nodes.values():
            module = node.module
            if module._compiled_call_impl is not None:
                self._wrap_compiled(node, module._compiled_call_impl)
                continue
            first = module.register_forward_pre_hook(before, with_kwargs=True)
            second = module.register_forward_hook(after, with_kwargs=True, always_call=True)
            self._handles += [first, second]
            self._last[module] = (first.id, second.id)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        for module, compiled in self._compiled_in_place:
            module._compiled_call_impl = compiled
        self._handles.clear()
        self._compiled_in_place.clear()

    def _before(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        node = self._nodes.get(module)
        if node is None or _recomputing():
            return
        before_id, after_id = self._last[module]
        last = next(reversed(module._forward_pre_hooks)) == before_id
        if self._frames.top() is None:
            self._put_all_last()
        _put_last(module._forward_hooks, after_id)
        self._shielded(lambda: self._watcher.enter(node, args, kwargs, last))
        if node.kind == "compiled":
            self._around_compiled(True)

    def _after(self, module: torch.nn.Module, result: Any) -> None:
        node = self._nodes.get(module)
        if node is None or _recomputing():
            return
        if node.kind == "compiled":
            self._around_compiled(False)
        self._shielded(lambda: self._watcher.leave(node, result))

    def _put_all_last(self) -> None:
        """Users may add hooks while we record; those of inner modules are still ahead."""
        for module, (before_id, after_id) in self._last.items():
            _put_last(module._forward_pre_hooks, before_id)
            _put_last(module._forward_hooks, after_id)

    def _wrap_compiled(self, node: Node, compiled: Callable[..., Any]) -> None:
        """`module.compile()` compiles the hooks along with the module; so the call as a whole is wrapped instead."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self._shielded(lambda: self._watcher.enter(node, args, kwargs))
            self._around_compiled(True)
            result = None
            try:
                result = compiled(*args, **kwargs)
            finally:
                self._around_compiled(False)
                self._shielded(lambda: self._watcher.leave(node, result))
            return result

        node.module._compiled_call_impl = call
        self._compiled_in_place.append((node.module, compiled))


def _put_last(hooks: dict[int, Any], number: int) -> None:
    if isinstance(hooks, OrderedDict) and next(reversed(hooks), number) != number:
        hooks.move_to_end(number)


def _recomputing() -> bool:
    """True during the backward pass, when activation checkpointing calls modules a second time."""
    import torch

    return torch._C._current_graph_task_id() != -1
