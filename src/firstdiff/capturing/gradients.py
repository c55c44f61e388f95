"""Record gradients of module outputs and of parameters as autograd computes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, final

from firstdiff.capturing.session import Place
from firstdiff.capturing.tensor_recorder import TensorRecorder

if TYPE_CHECKING:
    import torch
    from torch.utils.hooks import RemovableHandle


@final
class Gradients:
    """Hooks on tensors; they fire in the backward pass and change nothing."""

    def __init__(self, recorder: TensorRecorder, shielded: Callable[[Callable[[], object]], None]) -> None:
        self._recorder = recorder
        self._session = recorder.session
        self._shielded = shielded
        self._handles: list[RemovableHandle] = []

    def of_output(self, tensor: torch.Tensor, place: Place, slot: str) -> None:
        """The gradient of a module's output goes by the output's name and slot; that of a first backward pass."""
        arrivals = 0

        def record(gradient: torch.Tensor) -> None:
            nonlocal arrivals
            arrivals += 1
            if arrivals > 1:
                self._session.skip(f"{place.name}:grad", "of a second backward pass through the same graph")
            else:
                self._recorder.write(gradient, place, "grad", slot)

        self._watch(tensor, place.name, record)

    def of_parameters(self, parameters: Iterable[tuple[str, torch.Tensor]]) -> None:
        """The gradient of each backward pass by itself, before it is added to `.grad`."""
        for name, tensor in parameters:

            def record(gradient: torch.Tensor, name: str = name) -> None:
                step = self._session.step
                call = self._session.count_call(f"{name}:grad", step)
                self._recorder.write(gradient, Place(name, call, step), "grad")

            self._watch(tensor, name, record)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _watch(self, tensor: torch.Tensor, name: str, record: Callable[[torch.Tensor], Any]) -> None:
        if tensor.requires_grad and self._session.wants(name, "grad"):
            register: Any = tensor.register_hook
            self._handles.append(register(lambda gradient: self._shielded(lambda: record(gradient))))
