"""Healthy pairs of runs that share few bits: no comparison may raise an alarm."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

from firstdiff.comparing import compare
from firstdiff.schema import Comparison
from firstdiff.testing.zoo.architectures import ARCHITECTURES, Built
from firstdiff.testing.zoo.kernels import OtherKernels
from firstdiff.testing.zoo.planting import traced
from firstdiff.trace import ArraySource, Tensor, Trace

_MASKS = {"GPT2LMHeadModel": "attention_mask", "LlamaForCausalLM": "attention_mask"}
_MASKS |= {"WhisperForConditionalGeneration": "decoder_attention_mask"}
_UNDER_AUTOCAST = "rotary_emb"


def exported(built: Built) -> Built:
    """Export a model, unflattened so that a capture finds its modules."""
    with warnings.catch_warnings(), torch.no_grad(), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore")
        names = tuple(name for name, _ in built.model.named_modules() if name and not name.endswith(_UNDER_AUTOCAST))
        program = torch.export.export(built.model, (), built.inputs, strict=False, preserve_module_call_signature=names)
        return Built(torch.export.unflatten(program), built.inputs)


def without_renumbered(trace: Trace) -> Trace:
    """Remove the inputs of modules under autocast: torch.export drops unused ones and renumbers the rest."""
    kept = (tensor for tensor in trace if tensor.record.role != "input" or not tensor.name.endswith(_UNDER_AUTOCAST))
    return replace(trace, tensors=tuple(kept))


def with_mask(built: Built) -> Built:
    """Add the causal mask as an input, where a model makes it by vmap, which cannot be exported."""
    name = _MASKS.get(type(built.model).__name__)
    if name is None:
        return built
    ids: Any = built.inputs.get("decoder_input_ids", built.inputs.get("input_ids"))
    rows, tokens = ids.shape
    hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    mask = torch.zeros(tokens, tokens).masked_fill(hidden, torch.finfo(torch.float32).min)
    return Built(built.model, built.inputs | {name: mask.expand(rows, 1, tokens, tokens).contiguous()})


def cropped(reference: Trace, candidate: Trace, sizes: Mapping[int, int]) -> tuple[Trace, Trace]:
    """Crop the candidate's tensors to the reference's.

    sizes: axes of the candidate this long have so many leading places in common with the reference

    Tensors whose shapes are not related that way, such as a length, are left out of both.
    """
    smaller = {str(tensor.key): tensor for tensor in reference}
    kept: dict[str, Tensor] = {}
    for tensor in candidate:
        ours = smaller.get(str(tensor.key))
        if ours is None:
            kept[str(tensor.key)] = tensor
            continue
        part = _common_part(tensor.values().read(), ours.values().shape, sizes)
        if part is not None:
            kept[str(tensor.key)] = replace(tensor, source=ArraySource(part))
    theirs = {str(tensor.key) for tensor in candidate}
    common = tuple(tensor for key, tensor in smaller.items() if key in kept or key not in theirs)
    return replace(reference, tensors=common), replace(candidate, tensors=tuple(kept.values()))


def _common_part(values: np.ndarray, shape: tuple[int, ...], sizes: Mapping[int, int]) -> np.ndarray | None:
    if values.ndim != len(shape) or not shape:  # a scalar may be a length
        return None
    for axis, wanted in enumerate(shape):
        given = values.shape[axis]
        if given == wanted:
            continue
        inner = next(
            (long for long, short in sizes.items() if given % long == 0 and given // long * short == wanted), 0
        )
        if not inner:
            return None
        whole = values.reshape(
            *values.shape[:axis], *_factors(given, inner, wanted, sizes[inner]), *values.shape[axis + 1 :]
        )
        values = np.take(whole, range(sizes[inner]), axis=axis if sizes[inner] == 1 else axis + 1)
        values = values.reshape(*values.shape[:axis], wanted, *values.shape[axis + 2 :])
    return np.ascontiguousarray(values)


def _factors(given: int, inner: int, wanted: int, short: int) -> tuple[int, int]:
    """Return how a flattened axis splits: the batch is its outer part, tokens are the inner one."""
    return (inner, given // inner) if short == 1 else (wanted // short, inner)


Sides = tuple[Trace, Trace]
_TEXT = ("gpt2", "llama", "bert", "t5")
_PADDING = 4
_ROWS = 4


@dataclass(frozen=True, slots=True)
class HealthyPair:
    """One way of running an architecture twice."""

    way: str
    architecture: str
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.way} / {self.architecture} / {self.seed}"


@dataclass(frozen=True, slots=True)
class HealthyOutcome:
    """quiet: no alarm was raised; otherwise `alarm` says which."""

    pair: HealthyPair
    quiet: bool
    alarm: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Way:
    """A way of running a model once more.

    sides: makes both traces
    architectures: those it makes sense for
    partial: the candidate has other functions inside, or fewer: what is on one side only is no alarm
    """

    sides: Callable[[HealthyPair, Path], Sides]
    architectures: tuple[str, ...]
    partial: bool = False


def healthy_pairs(ways: Collection[str] = (), architectures: Collection[str] = (), seed: int = 0) -> list[HealthyPair]:
    """Return every way with every architecture it applies to, with two sets of weights.

    ways, architectures: only these; all if left out
    """
    return [
        HealthyPair(name, architecture, chosen)
        for chosen in (seed, seed + 1)
        for name, way in WAYS.items()
        for architecture in way.architectures
        if (not ways or name in ways) and (not architectures or architecture in architectures)
    ]


def run_healthy(pair: HealthyPair) -> HealthyOutcome:
    """Run both sides of a healthy pair and compare them."""
    way = WAYS[pair.way]
    with tempfile.TemporaryDirectory(prefix="firstdiff-zoo-") as folder:
        reference, candidate = way.sides(pair, Path(folder))
        begun = time.perf_counter()
        part = way.partial
        comparison = compare(reference, candidate, allow_missing=part, allow_extra=part, allow_partial=part)
        seconds = time.perf_counter() - begun
    alarm = _alarm(comparison)
    return HealthyOutcome(pair, alarm is None, alarm, seconds)


def _alarm(comparison: Comparison) -> str | None:
    first = comparison.first_divergence
    if first is not None:
        return f"{first.key} diverges"
    if comparison.diagnosis:
        return f"{comparison.diagnosis[0].cause} is stated"
    if comparison.verdict != "match":
        return f"the verdict is {comparison.verdict}: {comparison.summary}"
    return None


def _built(pair: HealthyPair, batch: int = 2) -> Built:
    return ARCHITECTURES[pair.architecture].build(pair.seed, batch)


def _other_order(pair: HealthyPair, folder: Path) -> Sides:
    built = _built(pair)
    return traced(built, folder / "reference"), traced(built, folder / "candidate", OtherKernels(pair.seed + 1))


def _half_against_single(pair: HealthyPair, folder: Path) -> Sides:
    return traced(_built(pair), folder / "reference"), traced(_half(_built(pair)), folder / "candidate")


def _half_against_half(pair: HealthyPair, folder: Path) -> Sides:
    built = _half(_built(pair))
    return traced(built, folder / "reference"), traced(built, folder / "candidate", OtherKernels(pair.seed + 1))


def _row_of_a_batch(pair: HealthyPair, folder: Path) -> Sides:
    whole = _built(pair, _ROWS)
    alone = Built(whole.model, {name: values[:1] for name, values in whole.inputs.items()})
    reference = traced(alone, folder / "reference")
    return cropped(reference, traced(whole, folder / "candidate"), {_ROWS: 1})


def _cropped_padding(pair: HealthyPair, folder: Path) -> Sides:
    short = _built(pair)
    ids = short.inputs["input_ids"]
    mask = short.inputs.get("attention_mask", torch.ones_like(ids))
    ends = {"input_ids": 3, "attention_mask": 0}
    given = short.inputs | {"attention_mask": mask}
    padded = {
        name: torch.nn.functional.pad(values, (0, _PADDING), value=ends[name]) if name in ends else values
        for name, values in given.items()
    }
    reference = traced(Built(short.model, given), folder / "reference")
    candidate = traced(Built(short.model, padded), folder / "candidate", OtherKernels(pair.seed + 1))
    return cropped(reference, candidate, {ids.shape[1] + _PADDING: ids.shape[1]})


def _exported(pair: HealthyPair, folder: Path) -> Sides:
    built = with_mask(_built(pair))
    sides = traced(built, folder / "reference"), traced(exported(built), folder / "candidate")
    return without_renumbered(sides[0]), without_renumbered(sides[1])


def _half(built: Built) -> Built:
    """Convert to bfloat16, except rotary frequencies, spectrograms and time steps."""
    kept = {name: module for name, module in built.model.named_modules() if name.endswith(("rotary_emb", "mel"))}
    wide = {name: {part: values.clone() for part, values in found.named_buffers()} for name, found in kept.items()}
    model = built.model.to(torch.bfloat16)
    for name, buffers in wide.items():
        for part, values in buffers.items():
            setattr(model.get_submodule(name), part, values)
    given = {name: values.bfloat16() if name == "input_features" else values for name, values in built.inputs.items()}
    return Built(model, given)


_ALL = tuple(name for name, made in ARCHITECTURES.items() if not made.held_out)
_NOT_ROUTED = tuple(name for name in _ALL if not ARCHITECTURES[name].routed)
WAYS: dict[str, Way] = {
    "other kernel order": Way(_other_order, _ALL),
    "bf16 against fp32": Way(_half_against_single, _NOT_ROUTED),
    "bf16 against bf16": Way(_half_against_half, _NOT_ROUTED),
    "batch 1 against row 0 of 4": Way(_row_of_a_batch, _NOT_ROUTED),
    "padding cropped": Way(_cropped_padding, _TEXT, partial=True),
    "eager against exported": Way(_exported, _NOT_ROUTED, partial=True),
}
