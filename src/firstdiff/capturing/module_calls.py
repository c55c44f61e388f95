"""Record module calls: the inputs when a module is entered, the outputs as its caller receives them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, final

from firstdiff.capturing.frames import Frame, Frames
from firstdiff.capturing.module_tree import Node
from firstdiff.capturing.session import Place
from firstdiff.capturing.slots import Parts, parts_of_call, parts_of_value
from firstdiff.capturing.snapshots import CopyRule, UnreadableTensorError
from firstdiff.capturing.tensor_recorder import TensorRecorder, is_tensor

if TYPE_CHECKING:
    import torch


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
        if node.kind == "compiled":
            attrs["compiled"] = True
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
