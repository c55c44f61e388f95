"""Two runs for real: a module against one with something changed, whose sums are in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from firstdiff.capturing import capture
from firstdiff.comparing import compare
from firstdiff.readers import open_trace
from firstdiff.schema import Comparison, Diagnosis
from firstdiff.testing.zoo.kernels import OtherKernels
from firstdiff.trace import Trace


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def traced(module: nn.Module, inputs: Sequence[Any], path: Path, *, other_order: bool = False) -> Trace:
    """One call, recorded with its functions and weights."""
    with torch.no_grad(), capture(module, path, params="all", overwrite=True):
        if other_order:
            with OtherKernels(1):
                module(*inputs)
        else:
            module(*inputs)
    return open_trace(path)


def compared(
    reference: nn.Module, candidate: nn.Module, inputs: Sequence[Any], folder: Path, *, bare: bool = False
) -> Comparison:
    """The comparison of two modules on the same inputs.

    bare: the candidate records no kinds, attributes and weights, as a port in another language
    """
    ours = traced(reference.eval(), inputs, folder / "reference.trace")
    theirs = traced(candidate, inputs, folder / "candidate.trace", other_order=True)
    found = compare(ours, stripped(theirs) if bare else theirs)
    failed = [note.text for note in found.notes if "failed on" in note.text or "could not be tested" in note.text]
    assert not failed, failed
    return found


def stripped(trace: Trace) -> Trace:
    """Names, roles, order and values: all that a small recorder writes."""
    kept = (tensor for tensor in trace if tensor.record.role not in ("param", "buffer"))
    bare = (replace(tensor, record=replace(tensor.record, op=None, attrs={})) for tensor in kept)
    return replace(trace, tensors=tuple(bare))


def assert_first(found: Comparison, cause: str, confidence: float = 0.9) -> Diagnosis:
    """The cause is named first, and surely."""
    assert found.first_divergence is not None, "nothing diverges"
    stated = [(one.cause, one.confidence) for one in found.diagnosis]
    assert [name for name, _ in stated[:1]] == [cause], (found.first_divergence.key, stated)
    assert found.diagnosis[0].confidence >= confidence, stated
    return found.diagnosis[0]


def assert_not_sure_of(found: Comparison, cause: str) -> None:
    """Whatever else is wrong, this is not said to be it."""
    stated = [(one.cause, one.confidence) for pair in found.pairs for one in pair.diagnosis]
    assert all(name != cause or confidence < 0.5 for name, confidence in stated), stated


class Calls(nn.Module):
    """A model whose code calls one function, with the tensors it holds."""

    def __init__(self, function: Any, **held: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for name, tensor in held.items():
            self.register_parameter(name, nn.Parameter(tensor, requires_grad=False))

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs, *self.parameters())
