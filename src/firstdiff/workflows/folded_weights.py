"""Weights under weight normalisation: gain and direction folded into the weight that layers use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from firstdiff.ops.arrays import weight_norm
from firstdiff.trace import ArraySource, Tensor, Trace

# names of gain and direction after the module's own
_FORMS = (
    ("weight_g", "weight_v"),
    ("parametrizations.weight.original0", "parametrizations.weight.original1"),
)


@dataclass(frozen=True, slots=True)
class FoldedWeights:
    """Both sides in one form; by the name of the weight, the direction it was folded from."""

    reference: Trace
    candidate: Trace
    in_reference: Mapping[str, Tensor] = field(default_factory=dict)
    in_candidate: Mapping[str, Tensor] = field(default_factory=dict)


def fold_weights(reference: Trace, candidate: Trace) -> FoldedWeights:
    """Fold the weights of a side where the other side does not hold them in two parts as well."""
    ref, cand = _parts(reference), _parts(candidate)
    return FoldedWeights(
        _folded(reference, {name: part for name, part in ref.items() if name not in cand}),
        _folded(candidate, {name: part for name, part in cand.items() if name not in ref}),
        {name: direction for name, (_, direction) in ref.items() if name not in cand},
        {name: direction for name, (_, direction) in cand.items() if name not in ref},
    )


def _parts(trace: Trace) -> dict[str, tuple[Tensor, Tensor]]:
    by_name = {tensor.name: tensor for tensor in trace if tensor.source is not None}
    found = {}
    for name, tensor in by_name.items():
        for gain, direction in _FORMS:
            module = name.removesuffix(gain)
            other = by_name.get(module + direction)
            if name.endswith(gain) and other is not None:
                found[f"{module}weight"] = (tensor, other)
    return found


def _folded(trace: Trace, parts: Mapping[str, tuple[Tensor, Tensor]]) -> Trace:
    if not parts:
        return trace
    by_direction = {direction.name: name for name, (_, direction) in parts.items()}
    gains = {gain.name for gain, _ in parts.values()}
    kept = []
    for tensor in trace:
        if tensor.name in by_direction:
            name = by_direction[tensor.name]
            gain, direction = (part.values().read() for part in parts[name])
            values = np.asarray(weight_norm(direction, gain)).astype(direction.dtype)
            kept.append(replace(tensor, record=replace(tensor.record, name=name), source=ArraySource(values)))
        elif tensor.name not in gains:
            kept.append(tensor)
    return replace(trace, tensors=tuple(kept))
