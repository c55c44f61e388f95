"""Save the calls of a model so that they can be repeated."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from firstdiff.capturing.tensor_recorder import is_tensor

if TYPE_CHECKING:
    import torch

MOST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class SavedCall:
    """The arguments of one call and what they met: random state, gradients on or off, autocast."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    random_state: torch.Tensor
    grad: bool
    inference: bool
    autocast: tuple[tuple[str, torch.dtype], ...]

    @contextmanager
    def circumstances(self) -> Iterator[None]:
        """The same random state, gradient mode and autocast; on leaving all is as it was."""
        import torch

        with ExitStack() as stack:
            stack.enter_context(torch.random.fork_rng(devices=[]))
            torch.set_rng_state(self.random_state)
            stack.enter_context(torch.inference_mode() if self.inference else torch.set_grad_enabled(self.grad))
            for device, dtype in self.autocast:
                stack.enter_context(torch.autocast(device, dtype))
            yield

    def fresh(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments that may be written to."""
        args, kwargs = copied((self.args, self.kwargs), _Budget(MOST_BYTES))
        return args, kwargs


@final
class SavedCalls:
    """Keeps calls while they are made; `missed` says why some, or all after some, were not kept."""

    def __init__(self) -> None:
        self.calls: list[SavedCall] = []
        self.missed: str | None = None
        self._budget = _Budget(MOST_BYTES)

    def save(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keep a call that is about to be made; calls after one that could not be kept are not tried."""
        if self.missed is not None:
            return
        try:
            own_args, own_kwargs = copied((args, kwargs), self._budget)
        except Exception as error:
            # whatever a stranger's object throws when it is copied
            self.missed = f"the arguments of call {len(self.calls)} could not be kept ({type(error).__name__}: {error})"
            return
        self.calls.append(SavedCall(own_args, own_kwargs, *_circumstances()))


class _OverBudgetError(Exception):
    """More than may be kept in memory."""


@dataclass(slots=True)
class _Budget:
    left: int

    def spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise _OverBudgetError(f"inputs of more than {MOST_BYTES >> 20} MiB are not kept")


def copied(value: Any, budget: _Budget) -> Any:
    """A deep copy, tensors off the graph."""

    def own(tensor: torch.Tensor) -> torch.Tensor:
        budget.spend(tensor.numel() * tensor.element_size())
        fresh = tensor.detach().clone()
        return fresh.requires_grad_() if tensor.requires_grad and not fresh.is_inference() else fresh

    return mapped(value, own, copy.deepcopy)


def mapped(
    value: Any, change: Callable[[torch.Tensor], torch.Tensor], other: Callable[[Any], Any] = lambda item: item
) -> Any:
    """The same containers with every tensor changed; what is neither tensor nor container goes through `other`."""
    if is_tensor(value):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return type(value)._make(mapped(item, change, other) for item in value)
    if type(value) in (tuple, list):
        return type(value)(mapped(item, change, other) for item in value)
    if isinstance(value, dict):
        fresh = copy.copy(value)
        for name, item in value.items():
            fresh[name] = mapped(item, change, other)
        return fresh
    return other(value)


def _circumstances() -> tuple[Any, ...]:
    import torch

    autocast = tuple(
        (device, torch.get_autocast_dtype(device)) for device in ("cpu", "cuda") if torch.is_autocast_enabled(device)
    )
    return torch.get_rng_state(), torch.is_grad_enabled(), torch.is_inference_mode_enabled(), autocast
