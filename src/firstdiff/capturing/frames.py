"""The stack of running module calls of each thread, innermost last."""

from __future__ import annotations

from dataclasses import dataclass
from threading import local
from typing import TYPE_CHECKING, Any, final

from firstdiff.capturing.module_tree import Node
from firstdiff.capturing.session import Place

if TYPE_CHECKING:
    import torch


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
