"""Compare two sets of weights: found, missing, unused, differing, transposed, tied, unfolded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from firstdiff.comparing import OnProgress, Options, compare_traces
from firstdiff.diagnose.replayed.unloaded_weights import fresh_words
from firstdiff.dtypes import doubles
from firstdiff.errors import UsageError, did_you_mean
from firstdiff.readers import open_trace
from firstdiff.schema import Pair, Verdict
from firstdiff.trace import Tensor, Trace
from firstdiff.workflows.folded_weights import FoldedWeights, fold_weights
from firstdiff.workflows.project import Component
from firstdiff.workflows.validation import OTHER, component_name

WeightState = Literal["same", "quantised", "transposed", "tied", "missing", "unused", "differing", "failed"]
GOOD: frozenset[WeightState] = frozenset({"same", "quantised", "transposed", "tied"})

_BITS = re.compile(r"Q(\d)|FP(\d)")
_NUMBER = re.compile(r"\d+")
_MOST_GROUPS = 20
_FOLDING_ERROR = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightResult:
    """One weight.

    called: its name in the candidate, where that is another
    unfolded: the side that holds it as gain and direction
    cause: a cause code
    """

    name: str
    component: str
    state: WeightState
    text: str
    called: str | None = None
    unfolded: str | None = None
    cause: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsReport:
    """The result for all weights, and the components they were grouped by."""

    reference: str
    candidate: str
    verdict: Verdict
    components: tuple[str, ...]
    weights: tuple[WeightResult, ...]
    warnings: tuple[str, ...] = ()

    def count(self, component: str, *states: WeightState) -> int:
        return sum(weight.component == component and weight.state in states for weight in self.weights)

    def unfolded(self, component: str) -> int:
        return sum(weight.component == component and weight.unfolded is not None for weight in self.weights)


def compare_weights(
    reference: Path,
    candidate: Path,
    *,
    components: Sequence[Component] = (),
    allow_missing: bool = False,
    allow_extra: bool = False,
    on_progress: OnProgress | None = None,
) -> WeightsReport:
    """Compare checkpoints of any format, or the parameters of two traces.

    components: stages to group by; layers and modules if left out
    allow_missing, allow_extra: let weights that only one side has pass
    """
    sides = [_weights_of(open_trace(path)) for path in (reference, candidate)]
    folded = fold_weights(sides[0], sides[1])
    compared = compare_traces(folded.reference, folded.candidate, Options.of(diagnose=False, effort=2.0), on_progress)
    judge = _Judge(folded, compared.pairs)
    groups = components or _groups([pair.name for pair in compared.pairs])
    results = [replace(judge.result(pair), component=component_name(pair.name, groups)) for pair in compared.pairs]
    passing = GOOD | ({"missing"} if allow_missing else set()) | ({"unused"} if allow_extra else set())
    verdict: Verdict = "match" if all(result.state in passing for result in results) else "mismatch"
    if not any(pair.metrics for pair in compared.pairs):
        verdict = "not_compared"
    names = dict.fromkeys(result.component for result in results)
    return WeightsReport(
        reference=str(reference),
        candidate=str(candidate),
        verdict=verdict,
        components=tuple(names),
        weights=tuple(results),
        warnings=compared.warnings,
    )


def _weights_of(trace: Trace) -> Trace:
    """Return the parameters of a recorded run, or everything in a checkpoint, as parameters."""
    recorded = [tensor for tensor in trace if tensor.record.role in ("param", "buffer")]
    stated = any(tensor.record.role is not None for tensor in trace)
    if stated and not recorded:
        raise UsageError(f"{trace.path}: is a trace without parameters; record them, or name the checkpoint")
    kept = recorded or [replace(tensor, record=replace(tensor.record, role="param")) for tensor in trace]
    return replace(trace, tensors=tuple(kept))


class _Judge:
    """Says what became of each weight; values are read again only for those that are in doubt."""

    def __init__(self, folded: FoldedWeights, pairs: Sequence[Pair]) -> None:
        self._folded = folded
        self._unused = [pair.name for pair in pairs if pair.status == "extra"]
        self._missing = [pair.name for pair in pairs if pair.status == "missing"]
        self._sides: dict[str, Mapping[str, Tensor]] = {
            "reference": {str(tensor.key): tensor for tensor in folded.reference},
            "candidate": {str(tensor.key): tensor for tensor in folded.candidate},
        }

    def result(self, pair: Pair) -> WeightResult:
        state, text, cause = self._state(pair)
        other = self._tensor("candidate", pair)
        return WeightResult(
            name=pair.name,
            component=OTHER,
            state=state,
            text=text,
            called=None if other is None or other.name == pair.name else other.name,
            unfolded=self._unfolded(pair),
            cause=cause,
        )

    def _unfolded(self, pair: Pair) -> str | None:
        tensors = self._tensor("reference", pair), self._tensor("candidate", pair)
        if tensors[0] is not None and tensors[0].name in self._folded.in_reference:
            return "reference"
        if tensors[1] is not None and tensors[1].name in self._folded.in_candidate:
            return "candidate"
        return None

    def _state(self, pair: Pair) -> tuple[WeightState, str, str | None]:
        if pair.status in ("missing", "extra"):
            return self._one_side(pair)
        if pair.status == "failed":
            return "failed", pair.reason or "cannot be read", None
        if pair.status == "match":
            return self._same(pair)
        bits = self._bits(pair)
        error = pair.metrics.rel_l2 if pair.metrics else None
        if error is not None and error <= _FOLDING_ERROR and self._unfolded(pair) is not None:
            return "same", "", None  # folding rounds, in another order on each side
        if bits is not None and error is not None and error <= min(0.5, 3.0 / 2**bits):
            return "quantised", f"{bits} bits: relative L2 error {error:.2g}", None
        return self._differing(pair)

    def _same(self, pair: Pair) -> tuple[WeightState, str, str | None]:
        if pair.alignment is not None and pair.alignment.coverage < 1:
            return self._differing(pair)
        if pair.alignment is not None and not pair.alignment.is_identity:
            return "transposed", f"the same values as {pair.alignment.recipe!r}", None
        return "same", "", None

    def _one_side(self, pair: Pair) -> tuple[WeightState, str, str | None]:
        side, state = ("reference", "missing") if pair.status == "missing" else ("candidate", "unused")
        twin = self._twin(side, pair)
        if twin is not None:
            return "tied", f"holds the values of {twin}", None
        near = did_you_mean(pair.name, self._unused if state == "missing" else self._missing)
        if state == "missing":
            return "missing", f"only the reference has it{near}", "weights.missing"
        return "unused", f"only the candidate has it{near}", None

    def _differing(self, pair: Pair) -> tuple[WeightState, str, str | None]:
        shapes = [list(side.shape or ()) for side in (pair.reference, pair.candidate) if side]
        if len(shapes) == 2 and shapes[0] != shapes[1]:
            return "differing", f"shape {shapes[0]} in the reference, {shapes[1]} in the candidate", "weights.differ"
        values = self._values("candidate", pair)
        wanted = self._values("reference", pair)
        direction = self._folded.in_reference.get(pair.name)
        if direction is not None and values is not None and _equal(values, direction.values().read()):
            return "differing", "holds the direction alone: multiply by weight_g / |weight_v|", "weights.unfolded"
        new = fresh_words(values)
        if new is not None and fresh_words(wanted) is None:
            return "differing", f"looks newly initialised and never loaded: {new}", "weights.missing"
        figures = (
            f"relative L2 error {pair.metrics.rel_l2:.2g}" if pair.metrics and pair.metrics.rel_l2 else pair.reason
        )
        return "differing", figures or "values differ", "weights.differ"

    def _values(self, side: str, pair: Pair) -> np.ndarray | None:
        tensor = self._tensor(side, pair)
        return None if tensor is None or tensor.source is None else tensor.source.read()

    def _tensor(self, side: str, pair: Pair) -> Tensor | None:
        """Return the weight of one side; None where it has none, or several that make up one of the other side."""
        info = pair.reference if side == "reference" else pair.candidate
        return self._sides[side].get(info.keys[0]) if info is not None and len(info.keys) == 1 else None

    def _bits(self, pair: Pair) -> int | None:
        """Return the bits of the coarser quantisation of a pair; None where neither side is quantised."""
        found = []
        for side in ("reference", "candidate"):
            tensor = self._tensor(side, pair)
            kind = _BITS.search(str(tensor.record.attrs.get("quantisation", ""))) if tensor is not None else None
            if kind is not None:
                found.append(int(kind[1] or kind[2]))
        return min(found, default=None)

    def _twin(self, side: str, pair: Pair) -> str | None:
        """Return another tensor of the same side that holds the same values: tied weights are stored once, or twice."""
        own = self._tensor(side, pair)
        if own is None or own.source is None or own.source.size < 2:
            return None
        values: np.ndarray | None = None
        for tensor in self._sides[side].values():
            source = tensor.source
            if tensor is own or source is None or source.shape != own.source.shape:
                continue
            if values is None:
                values = own.source.read()
            if np.array_equal(values[:1], source.read(slice(0, 1))) and np.array_equal(values, source.read()):
                return tensor.name
        return None


def _equal(reference: np.ndarray, candidate: np.ndarray) -> bool:
    return reference.shape == candidate.shape and bool(
        np.allclose(doubles(reference), doubles(candidate), rtol=1e-3, atol=1e-6)
    )


def _groups(names: Sequence[str]) -> tuple[Component, ...]:
    """Group weights by layer stack or module: `model.layers.*`, `model.embed_tokens`."""
    for depth in (None, 2, 1):
        groups = tuple(dict.fromkeys(_group(name, depth) for name in names))
        if len(groups) <= _MOST_GROUPS:
            break
    return tuple(Component(group, tuple(_globs(group))) for group in sorted(groups, key=lambda group: -len(group)))


def _group(name: str, depth: int | None) -> str:
    parts = name.split(".")
    number = next((place for place, part in enumerate(parts) if _NUMBER.fullmatch(part)), None)
    if number is not None:
        return ".".join([*parts[:number], "*"])
    kept = parts[:-1] or parts
    return ".".join(kept if depth is None else kept[:depth])


def _globs(group: str) -> Iterator[str]:
    yield group
    if not group.endswith("*"):
        yield f"{group}.*"
