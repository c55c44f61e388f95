"""Hooks on every module of a model: last in line, so that they see what callee and caller see."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, final

from firstdiff.capturing.frames import Frames
from firstdiff.capturing.module_tree import Node

if TYPE_CHECKING:
    import torch
    from torch.utils.hooks import RemovableHandle


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
        self._nodes = {node.module: node for node in nodes if node.kind in ("watched", "compiled")}
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
