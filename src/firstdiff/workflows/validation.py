"""The result of validating a port: one line a tensor, one a component, and the answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from firstdiff.errors import did_you_mean
from firstdiff.schema import Comparison, Pair
from firstdiff.workflows.project import Component

SCHEMA = "firstdiff/validation/1"
TensorStatus = Literal["PASS", "SHAPE MISMATCH", "VALUE MISMATCH", "NOT RECORDED", "EXTRA", "ERROR"]
ComponentState = Literal["pass", "fail", "unchecked", "absent"]

FAILURES: frozenset[TensorStatus] = frozenset({"SHAPE MISMATCH", "VALUE MISMATCH", "ERROR"})
OTHER = "other"
FULL = "full"
_WEIGHTS = frozenset({"param", "buffer"})
_MOST_DERIVED = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorResult:
    """One tensor of the golden, or an extra one of the candidate.

    counts: it is one of those that the coverage of a component counts: outputs, no weights
    weight: a parameter or buffer: evidence, and first only where nothing else fails
    text: what was expected and what came, in words
    cause: the cause code that was found for it
    """

    key: str
    component: str
    status: TensorStatus
    text: str
    counts: bool
    max_abs: float | None = None
    mean_abs: float | None = None
    rel_l2: float | None = None
    origin: str | None = None
    cause: str | None = None
    fix: str | None = None
    isolated: str | None = None
    weight: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentResult:
    """One stage: how many of its golden tensors were checked, and the first that fails.

    state: "absent" where the golden has no tensor of it, "unchecked" where the candidate recorded none; both fail
    """

    name: str
    state: ComponentState
    checked: int
    expected: int
    failed: int
    first: str | None = None
    text: str = ""
    cause: str | None = None

    @property
    def passes(self) -> bool:
        return self.state == "pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """One candidate run against one golden.

    inputs: what the two runs were given and is not the same; then no cause is looked for
    error: why the candidate's run ended early
    warnings: what else to know: a stale golden, tensors of no component
    isolate: components were judged on golden inputs, which says nothing of a run from end to end
    """

    schema: str = SCHEMA
    version: str
    made: str
    input_set: str
    golden: str
    candidate: str
    scope: str
    passed: bool
    inputs: tuple[str, ...]
    error: str | None
    warnings: tuple[str, ...]
    components: tuple[ComponentResult, ...]
    tensors: tuple[TensorResult, ...]
    first: str | None = None
    cause: str | None = None
    evidence: str | None = None
    fix: str | None = None
    seconds: float | None = None
    code: str | None = None
    isolate: bool = False


def first_of(failing: Sequence[TensorResult]) -> TensorResult | None:
    """Return the first that is no weight, or else the first."""
    return next((tensor for tensor in failing if not tensor.weight), failing[0] if failing else None)


def component_name(name: str, components: Sequence[Component]) -> str:
    """Return the first component, in pipeline order, that holds a tensor."""
    return next((component.name for component in components if component.holds(name)), OTHER)


def derived_components(names: Iterable[str]) -> tuple[Component, ...]:
    """Group names by their first part, in order, for a golden without a project; one for all where there are many."""
    heads = list(dict.fromkeys(name.replace("/", ".").partition(".")[0] for name in names))
    if len(heads) > _MOST_DERIVED:
        return (Component("all", ("*",)),)
    return tuple(Component(head, (_escaped(head), f"{_escaped(head)}[./]*")) for head in heads)


def _escaped(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def tensor_results(comparison: Comparison, components: Sequence[Component], *, isolate: bool) -> list[TensorResult]:
    """Turn rows into lines; with `isolate` an operation that is right on its own inputs passes."""
    return [_tensor_result(pair, component_name(pair.name, components), isolate=isolate) for pair in comparison.pairs]


def component_results(
    components: Sequence[Component], tensors: Sequence[TensorResult], *, require_all: bool, known: Sequence[str]
) -> list[ComponentResult]:
    """Sum up the tensors of each component; one with none to check fails.

    require_all: every tensor of the golden must have been checked
    known: all names of the golden, for "did you mean"
    """
    found = [_component_result(item, tensors, require_all=require_all, known=known) for item in components]
    others = [tensor for tensor in tensors if tensor.component == OTHER and tensor.status in FAILURES]
    if others:
        rest = _component_result(Component(OTHER, ()), tensors, require_all=require_all, known=known)
        found.append(replace(rest, state="fail"))
    return found


def _component_result(
    component: Component, tensors: Sequence[TensorResult], *, require_all: bool, known: Sequence[str]
) -> ComponentResult:
    own = [tensor for tensor in tensors if tensor.component == component.name and tensor.status != "EXTRA"]
    counted = [tensor for tensor in own if tensor.counts] or own
    checked = [tensor for tensor in counted if tensor.status != "NOT RECORDED"]
    lacking = [tensor for tensor in counted if tensor.status == "NOT RECORDED"]
    failing = [tensor for tensor in own if tensor.status in FAILURES]
    first = first_of(failing)
    state: ComponentState = "fail" if failing else "pass"
    text = "" if first is None else f"{first.status}: {first.text}"
    if not own:
        state, text = "absent", nothing_matches(component, known)
    elif not checked and not failing:
        state, text = "unchecked", f"the candidate recorded none of its tensors, such as {counted[0].key}"
    elif lacking and require_all and not failing:
        state, text = "fail", f"NOT RECORDED: the candidate did not record {lacking[0].key}"
        first = lacking[0]
    return ComponentResult(
        name=component.name,
        state=state,
        checked=len(checked),
        expected=len(counted),
        failed=len(failing),
        first=first.key if first else None,
        text=text,
        cause=first.cause if first else None,
    )


def nothing_matches(component: Component, known: Sequence[str]) -> str:
    """Say that a component's globs match no name of the golden, with near ones."""
    near = [did_you_mean(glob, known) for glob in component.globs]
    return f"{', '.join(component.globs)} matches no tensor of the golden{''.join(near)}"


def _tensor_result(pair: Pair, component: str, *, isolate: bool) -> TensorResult:
    status, text = _status(pair)
    alone = pair.isolated.status if isolate and pair.isolated is not None else None
    if alone == "match" and status == "VALUE MISMATCH":
        status, text = "PASS", f"right on its own inputs; inherited {text}"
    elif isolate and pair.role == "input" and pair.origin == "inherited" and status == "VALUE MISMATCH":
        status, text = "PASS", f"inherited {text}"
    elif alone == "mismatch" and pair.isolated is not None:
        status, text = "VALUE MISMATCH", f"{text}; alone: {pair.isolated.reason}"
    best = pair.diagnosis[0] if pair.diagnosis else None
    metrics = pair.metrics
    return TensorResult(
        key=pair.key,
        component=component,
        status=status,
        text=text,
        counts=pair.role == "output",
        max_abs=metrics.max_abs if metrics else None,
        mean_abs=metrics.mean_abs if metrics else None,
        rel_l2=metrics.rel_l2 if metrics else None,
        origin=pair.origin,
        cause=best.cause if best else None,
        fix=best.fix if best else None,
        isolated=alone,
        weight=pair.role in _WEIGHTS,
    )


def _status(pair: Pair) -> tuple[TensorStatus, str]:
    if pair.status == "missing" or (pair.status == "rewritten" and pair.reference is not None):
        return "NOT RECORDED", "only the golden has it"
    if pair.status in ("extra", "rewritten"):
        return "EXTRA", "only the candidate has it"
    shapes = [side.shape for side in (pair.reference, pair.candidate) if side is not None]
    if pair.status == "mismatch" and len(shapes) == 2 and shapes[0] != shapes[1]:
        expected = f"expected {list(shapes[0] or ())}, got {list(shapes[1] or ())}"
        return "SHAPE MISMATCH", expected + _would_fit(pair)
    if pair.status not in ("match", "mismatch"):
        return "ERROR", pair.reason or "it cannot be compared"
    if pair.status == "match":
        return "PASS", _figures(pair) if pair.metrics else "equal"
    return "VALUE MISMATCH", f"{_figures(pair)}{_would_fit(pair)}"


def _would_fit(pair: Pair) -> str:
    if pair.alignment is None or pair.alignment.is_identity:
        return ""
    return f"; it would fit as {pair.alignment.recipe!r}"


def _figures(pair: Pair) -> str:
    metrics = pair.metrics
    if metrics is None:
        return pair.reason or ""
    if metrics.elements == 0:
        return "no elements"
    figures = [
        f"{name} {value:.3g}"
        for name, value in (("max", metrics.max_abs), ("mean", metrics.mean_abs))
        if value is not None
    ]
    odd = metrics.nan_candidate + metrics.inf_candidate + metrics.nan_reference + metrics.inf_reference
    if odd:
        figures.append(f"{metrics.nan_candidate:,} NaN and {metrics.inf_candidate:,} Inf in the candidate")
        figures.append(f"{metrics.nan_reference:,} NaN and {metrics.inf_reference:,} Inf in the golden")
    return ", ".join(figures) or pair.reason or ""
