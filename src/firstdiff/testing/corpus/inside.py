"""Faults inside single operations of a BERT: each must be placed at its module by replaying it."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from firstdiff.capturing import capture
from firstdiff.comparing import compare
from firstdiff.testing.corpus.variations import cast
from firstdiff.testing.zoo.architectures import Built
from firstdiff.testing.zoo.edits import around_forward, edit_function
from firstdiff.trace import Trace

_LAYER = 2


@dataclass(frozen=True, slots=True)
class InnerFault:
    """A fault in one operation.

    plant: changes a BERT and returns the name of the module it is in
    """

    name: str
    plant: Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Placed:
    """The location that a comparison reported for a fault.

    module: where it is
    first: the first row that is named, None for a match
    """

    fault: str
    dtype: str
    module: str
    first: str | None
    causes: tuple[str, ...]

    @property
    def right(self) -> bool:
        """True if the first divergence is the module's output, or a function that its code calls."""
        name = (self.first or "").split(":")[0].split("@")[0]
        return self.module in (name, name.rpartition(".")[0])


def place(built: Built, fault: InnerFault, dtype: torch.dtype) -> Placed:
    """Plant a fault in a copy of a model in a type, and compare it with the model as it is."""
    candidate = cast(built, dtype)
    module = fault.plant(candidate.model)
    with tempfile.TemporaryDirectory(prefix="firstdiff-corpus-") as folder:
        traces = [_recorded(one, Path(folder) / name) for one, name in ((built, "ref"), (candidate, "cand"))]
        comparison = compare(*traces, isolate=True)
    first = comparison.first_divergence
    causes = tuple(finding.cause for finding in comparison.diagnosis)
    return Placed(fault.name, str(dtype).removeprefix("torch."), module, first.key if first else None, causes)


def placed_table(found: Sequence[Placed]) -> str:
    """One line for each fault, as Markdown."""
    lines = ["| fault inside one operation | type | first divergence | causes |", "|---|---|---|---|"]
    for one in found:
        mark = "at its module" if one.right else (f"{one.first}, not {one.module}" if one.first else "not found")
        lines.append(f"| {one.fault} | {one.dtype} | {mark} | {', '.join(one.causes[:2]) or '-'} |")
    return "\n".join(lines)


def _recorded(built: Built, path: Path) -> Trace:
    from firstdiff.readers import open_trace

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        with capture(built.model, path):
            built.model(**built.inputs)
    return open_trace(path)


def _norm_eps(model: Any) -> str:
    model.encoder.layer[_LAYER].output.LayerNorm.eps = 1e-5
    return f"encoder.layer.{_LAYER}.output.LayerNorm"


def _tanh_gelu(model: Any) -> str:
    part = model.encoder.layer[_LAYER].intermediate.intermediate_act_fn
    edit_function(part, "gelu", lambda _, x, **__: torch.nn.functional.gelu(x, approximate="tanh"))
    return f"encoder.layer.{_LAYER}.intermediate.intermediate_act_fn"


def _weight_row(model: Any) -> str:
    model.encoder.layer[_LAYER].attention.self.query.weight.data[17] *= 1.1
    return f"encoder.layer.{_LAYER}.attention.self.query"


def _half_softmax(model: Any) -> str:
    part = model.encoder.layer[_LAYER].attention.self
    edit_function(part, "softmax", lambda function, x, *args, **kw: function(x.bfloat16(), *args, **kw).to(x.dtype))
    return f"encoder.layer.{_LAYER}.attention.self"


def _no_bias(model: Any) -> str:
    model.encoder.layer[_LAYER].output.dense.bias = None
    return f"encoder.layer.{_LAYER}.output.dense"


def _position(model: Any) -> str:
    around_forward(model.embeddings.position_embeddings, lambda forward, ids: forward(ids + 1))
    return "embeddings.position_embeddings"


def _transposed(model: Any) -> str:
    part = model.encoder.layer[_LAYER].attention.self.key
    part.weight.data = part.weight.data.T.clone()
    return f"encoder.layer.{_LAYER}.attention.self.key"


def _other_layer(model: Any) -> str:
    other = model.encoder.layer[_LAYER + 1].intermediate.dense
    model.encoder.layer[_LAYER].intermediate.dense.weight.data = other.weight.data.clone()
    return f"encoder.layer.{_LAYER}.intermediate.dense"


def _scaled_weights(model: Any) -> str:
    model.encoder.layer[_LAYER].intermediate.dense.weight.data *= 1.01
    return f"encoder.layer.{_LAYER}.intermediate.dense"


INNER_FAULTS = (
    InnerFault("LayerNorm eps 1e-5 for 1e-12", _norm_eps),
    InnerFault("tanh GELU", _tanh_gelu),
    InnerFault("one weight row x1.1", _weight_row),
    InnerFault("softmax in bf16", _half_softmax),
    InnerFault("missing bias", _no_bias),
    InnerFault("position off by one", _position),
    InnerFault("transposed square weight", _transposed),
    InnerFault("another layer's weights", _other_layer),
    InnerFault("weights x1.01", _scaled_weights),
)
