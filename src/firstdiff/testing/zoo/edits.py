"""Plant a fault in a model: change a module's output, or one function that its code calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from firstdiff.capturing.functions import describe

Change = Callable[[torch.Tensor], torch.Tensor]
Edit = Callable[..., Any]


def around_forward(module: nn.Module, around: Callable[..., Any]) -> None:
    """Run `around(forward, *args, **kwargs)` in place of a module's forward."""
    inner = module.forward
    module.forward = lambda *args, **kwargs: around(inner, *args, **kwargs)


def change_output(module: nn.Module, change: Change) -> None:
    """Change a module's output as a wrong kernel would, without a function call that a capture would record."""

    def around(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = forward(*args, **kwargs)
        with torch._C.DisableTorchFunction():
            return with_first_tensor(result, change)

    around_forward(module, around)


def with_first_tensor(result: Any, change: Change) -> Any:
    """Return a result with its first tensor changed."""
    if isinstance(result, torch.Tensor):
        return change(result)
    if isinstance(result, tuple):
        return (with_first_tensor(result[0], change), *result[1:])
    name = next(key for key, value in result.items() if isinstance(value, torch.Tensor))
    result[name] = change(result[name])
    return result


def edit_function(module: nn.Module, name: str, edit: Edit, *, call: int | None = None) -> None:
    """Replace one function called in a module's own code by `edit(function, *args, **kwargs)`.

    name: as a capture names it: softmax, add, scaled_dot_product_attention
    call: which of its calls, counted from 0; all if left out
    """
    mode = _Editing(name, edit, call)
    for child in _called_by(module):
        around_forward(child, mode.aside)
    around_forward(module, mode.inside)


def _called_by(module: nn.Module) -> Iterator[nn.Module]:
    """Return the children that a module's code may call; lists and dicts of modules are not called."""
    for child in module.children():
        if isinstance(child, nn.ModuleList | nn.ModuleDict):
            yield from _called_by(child)
        else:
            yield child


class _Editing(TorchFunctionMode):
    def __init__(self, name: str, edit: Edit, call: int | None) -> None:
        super().__init__()
        self._name = name
        self._edit = edit
        self._call = call
        self._seen = 0
        self._aside = 0

    def inside(self, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._seen = 0
        with self:
            return forward(*args, **kwargs)

    def aside(self, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._aside += 1
        try:
            return forward(*args, **kwargs)
        finally:
            self._aside -= 1

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if self._aside or not self._is_it(function):
            return function(*args, **named)
        self._seen += 1
        if self._call is not None and self._seen != self._call + 1:
            return function(*args, **named)
        return self._edit(function, *args, **named)

    def _is_it(self, function: Any) -> bool:
        known = describe(function, every=True)
        return known is not None and known.name == self._name


def set_weight(module: nn.Module, name: str, values: torch.Tensor) -> None:
    """Give a parameter other values, no longer shared with another module."""
    setattr(module, name, nn.Parameter(values.detach().clone(), requires_grad=False))
