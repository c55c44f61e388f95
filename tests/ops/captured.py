"""Operations as a capture records them, with their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from firstdiff.capturing import capture
from firstdiff.ops import NotReplayable, Replayed, reproduce
from firstdiff.readers import open_trace
from firstdiff.trace import Tensor


@dataclass(frozen=True)
class Operation:
    """One call, as `replay` takes it."""

    name: str
    op: str
    attrs: Mapping[str, Any]
    inputs: dict[str, np.ndarray]
    params: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]

    def reproduce(self) -> Replayed | NotReplayable:
        return reproduce(self.op, self.attrs, self.inputs, self.params, self.outputs, name=self.name)


def operations(model: nn.Module, path: Path, *args: Any, **kwargs: Any) -> list[Operation]:
    """Every call that gave an output, in order."""
    with torch.no_grad(), capture(model, path, params="all", overwrite=True):
        model(*args, **kwargs)
    tensors = list(open_trace(path))
    by_seq = {tensor.record.seq: tensor for tensor in tensors}
    held = {
        alias: tensor.values().view()
        for tensor in tensors
        if tensor.record.role in ("param", "buffer")
        for alias in (tensor.name, *tensor.record.attrs.get("aliases", ()))
    }
    calls: dict[tuple[str, int], list[Tensor]] = {}
    for tensor in tensors:
        if tensor.record.role in ("input", "output"):
            calls.setdefault((tensor.name, tensor.record.call), []).append(tensor)
    return [_operation(name, lines, by_seq, held) for (name, _), lines in calls.items() if _outputs(lines)]


class Calling(nn.Module):
    """A model that calls one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *args: Any) -> Any:
        return self._function(*args)


def function_call(function: Callable[..., Any], path: Path, *args: Any) -> Operation:
    """The last function that is recorded when a model calls this one."""
    return [found for found in operations(Calling(function), path, *args) if found.name != "root"][-1]


def assert_reproduced(found: Operation, operator: str | None = None, **settings: Any) -> Replayed:
    """The operation gives its output again, by this operator and with these settings."""
    again = found.reproduce()
    assert isinstance(again, Replayed), again
    assert again.residual is not None
    assert again.outputs.keys() >= found.outputs.keys()
    assert operator in (None, again.plan.operator)
    assert {name: again.settings[name] for name in settings} == settings
    return again


def operation(module: nn.Module, path: Path, *args: Any, **kwargs: Any) -> Operation:
    """The call of the module itself."""
    return next(found for found in operations(module, path, *args, **kwargs) if found.name == "root")


def _outputs(lines: list[Tensor]) -> list[Tensor]:
    return [line for line in lines if line.record.role == "output"]


def _operation(name: str, lines: list[Tensor], by_seq: dict[Any, Tensor], held: dict[str, np.ndarray]) -> Operation:
    last = _outputs(lines)[0].record
    attrs = last.attrs
    inputs = {line.record.slot: line.values().view() for line in lines if line.record.role == "input"}
    views = attrs.get("views", ())
    for slot, seq in zip(attrs.get("inputs", ()), last.sources, strict=False):
        if slot not in inputs and slot not in views:
            inputs[slot] = by_seq[seq].values().view()
    prefix = "" if name == "root" else f"{name}."
    params = {key.removeprefix(prefix): values for key, values in held.items() if key.startswith(prefix)}
    outputs = {line.record.slot: line.values().view() for line in _outputs(lines)}
    return Operation(name, last.op or "", attrs, inputs, params, outputs)
