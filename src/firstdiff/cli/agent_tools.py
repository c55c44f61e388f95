"""Tools that agents call over the Model Context Protocol, confined to one project's folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import wraps
from inspect import signature
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstdiff.cli.agent_results import (
    CheckResult,
    CompareResult,
    ComponentOutcome,
    DiagnoseResult,
    DivergenceResult,
    ExplainResult,
    NextTask,
    RuleFailure,
    TensorEntry,
    TensorList,
    TensorSlice,
    TensorStatistics,
    ValidateResult,
    ValidateResults,
    divergence_result,
    row_result,
)
from firstdiff.errors import FirstdiffError, UsageError, did_you_mean
from firstdiff.json_text import plain
from firstdiff.schema import Comparison

if TYPE_CHECKING:
    from firstdiff.workflows.project import Project

MAX_VALUES = 1024
_MOST_ROWS = 200
_MOST_TENSORS = 500
_MOST_FAILURES = 100


@dataclass(frozen=True)
class ProjectTools:
    """The tools; every path must lie in `root`, and commands come from its `firstdiff.toml` alone."""

    root: Path

    def compare(
        self, reference: str, candidate: str, atol: float | None = None, rtol: float | None = None, max_rows: int = 20
    ) -> CompareResult:
        """Compare two recorded runs: verdict, first divergence with its cause and fix, and the first rows that differ.

        reference and candidate are paths in the project. atol and rtol replace the default tolerance.
        """
        from firstdiff.reports.sentences import summary

        found = self._compared(reference, candidate, atol=atol, rtol=rtol)
        broken = [pair for pair in found.pairs if pair.status not in ("match", "rewritten")]
        shown = broken[: max(0, min(max_rows, _MOST_ROWS))]
        return CompareResult(
            verdict=found.verdict,
            summary=summary(found),
            first_divergence=divergence_result(found),
            introduced_at=[site.key for site in found.divergences],
            rows=[row_result(pair) for pair in shown],
            rows_left_out=len(broken) - len(shown),
            warnings=list(found.warnings),
            notes=[note.text for note in found.notes],
        )

    def first_divergence(self, reference: str, candidate: str) -> DivergenceResult | None:
        """Return the first tensor that diverges, the code it was made in, its cause and fix; nothing if runs match."""
        return divergence_result(self._compared(reference, candidate))

    def explain(self, reference: str, candidate: str, name: str) -> ExplainResult:
        """Say why one tensor was paired as it was, how its layouts relate, and what its verdict rests on."""
        from firstdiff.comparing import Options, explain_pair
        from firstdiff.reports.sentences import explain

        pair = explain_pair(self.path(reference), self.path(candidate), name, Options())
        return ExplainResult(
            row=row_result(pair),
            paired_by=pair.pairing.method if pair.pairing else None,
            layout=pair.alignment.recipe if pair.alignment else None,
            sentences=list(explain(pair)),
        )

    def diagnose(self, reference: str, candidate: str, name: str | None = None) -> DiagnoseResult:
        """Test every known cause on the numbers, for one tensor or wherever an error was introduced."""
        from firstdiff.comparing import row_named

        found = self._compared(reference, candidate, effort="full", only=name)
        first = [found.first_divergence] if found.first_divergence else []
        rows = [row_named(found.pairs, name)] if name else [found.pairs[s.pair] for s in (*first, *found.divergences)]
        unique = {row.index: row_result(row) for row in rows}
        return DiagnoseResult(found.verdict, list(unique.values()), [note.text for note in found.notes])

    def list_tensors(self, trace: str, glob: str = "*", max_tensors: int = 100) -> TensorList:
        """List keys, shapes and dtypes of the tensors of a trace that a glob fits."""
        from firstdiff import dtypes
        from firstdiff.readers import open_trace

        opened = open_trace(self.path(trace))
        fitting = [tensor for tensor in opened if fnmatchcase(str(tensor.key), glob)]
        entries = [
            TensorEntry(
                key=str(tensor.key),
                shape=list(tensor.source.shape) if tensor.source else None,
                dtype=dtypes.name_of(tensor.source.dtype) if tensor.source else None,
                error=tensor.error,
            )
            for tensor in fitting[: max(0, min(max_tensors, _MOST_TENSORS))]
        ]
        return TensorList(entries, len(fitting) - len(entries), opened.order, list(opened.warnings))

    def tensor_statistics(self, trace: str, name: str) -> TensorStatistics:
        """Return shape, dtype, mean, deviation, range, NaN and Inf of one tensor."""
        from firstdiff import dtypes
        from firstdiff.measure import measure_statistics
        from firstdiff.readers import open_trace

        source = open_trace(self.path(trace))[name].values()
        found = measure_statistics(source)
        return TensorStatistics(
            key=name,
            shape=list(source.shape),
            dtype=dtypes.name_of(source.dtype),
            mean=plain(found.mean),
            std=plain(found.std),
            min=plain(found.min),
            max=plain(found.max),
            nan=found.nan,
            inf=found.inf,
        )

    def tensor_slice(self, trace: str, name: str, slice: str) -> TensorSlice:
        """Return the values of a slice such as '0,:,3:8', at most 1,024 of them."""
        import numpy as np

        from firstdiff import dtypes
        from firstdiff.readers import open_trace
        from firstdiff.trace.slices import parse_slice

        source = open_trace(self.path(trace))[name].values()
        index: Any = parse_slice(slice, source.shape)
        shape = np.broadcast_to(np.empty((), np.int8), source.shape)[index].shape
        if prod(shape) > MAX_VALUES:
            raise UsageError(
                f"the slice {slice!r} of {name} has {prod(shape):,} values; ask for {MAX_VALUES:,} or fewer, "
                "or for tensor_statistics"
            )
        values = source.read(index)
        shown = values.astype(np.float32) if dtypes.is_extended(values.dtype) else values
        return TensorSlice(name, slice, list(shape), dtypes.name_of(source.dtype), plain(shown.tolist()))

    def check_rules(self, trace: str, rules: str) -> CheckResult:
        """Check that a trace keeps the rules of a TOML file: finite values, sums of 1, valid ids, …"""
        from firstdiff.checks import check

        found = check(self.path(trace), self.path(rules))
        failures = [
            RuleFailure(
                rule=rule.name,
                check=rule.check,
                key=failure.key,
                index=None if failure.index is None else list(failure.index),
                value=plain(failure.value),
                count=failure.count,
                text=failure.text,
            )
            for rule in found.rules
            for failure in rule.failures
        ]
        shown = failures[:_MOST_FAILURES]
        return CheckResult(found.verdict, len(found.rules), shown, len(failures) - len(shown))

    def validate(self, component: str = "full", input_set: str | None = None, isolate: bool = False) -> ValidateResults:
        """Run the candidate command of firstdiff.toml and check what it recorded against golden data.

        component: one stage, or "full"; isolate judges stages on golden inputs, where the port asks for them.
        """
        from firstdiff.workflows.validate import ValidateOptions, validate_project

        project = self._project()
        options = ValidateOptions(scope=component, isolate=isolate)
        runs = []
        for inputs in project.input_sets(input_set):
            found = validate_project(project, inputs, options).validation
            components = [
                ComponentOutcome(one.name, one.state, one.checked, one.expected, one.first, one.text, one.cause)
                for one in found.components
            ]
            runs.append(
                ValidateResult(
                    input_set=found.input_set,
                    passed=found.passed,
                    components=components,
                    first=found.first,
                    cause=found.cause,
                    evidence=found.evidence,
                    fix=found.fix,
                    golden=found.golden,
                    candidate=found.candidate,
                    different_inputs=list(found.inputs),
                    error=found.error,
                    warnings=list(found.warnings),
                )
            )
        return ValidateResults(all(run.passed for run in runs), runs)

    def plan_next(self) -> NextTask:
        """Return the one next task of the port, from the newest results of validate: what, why, and how to check."""
        from firstdiff.workflows.plan import newest, next_task, staleness, tasks_of

        project = self._project()
        validations = newest(project)
        task, stale = next_task(tasks_of(project, validations)), staleness(project, validations)
        if task is None:
            return NextTask(done=True, stale=stale)
        return NextTask(
            done=False,
            title=task.title,
            component=task.component,
            tensor=task.tensor,
            text=task.text or None,
            cause=task.cause,
            evidence=task.evidence,
            fix=task.fix,
            check=task.check,
            stale=stale,
        )

    def path(self, text: str) -> Path:
        """Return a path below the project's folder; UsageError for any other, links followed."""
        if "\0" in text:
            raise UsageError("the path holds a null character")
        root = self.root.resolve()
        found = (root / text).resolve()
        if not found.is_relative_to(root):
            raise UsageError(f"{text} lies outside the project's folder, {root}; give a path in it")
        return found

    def _project(self) -> Project:
        from firstdiff.workflows.project import FILE, load_project

        settings = self.root / FILE
        if not settings.is_file():
            raise UsageError(f"{self.root} has no {FILE}, which names the commands; `firstdiff init` writes one")
        return load_project(settings)

    def _compared(self, reference: str, candidate: str, *, only: str | None = None, **stated: Any) -> Comparison:
        from firstdiff.comparing import Options, compare_traces

        return compare_traces(self.path(reference), self.path(candidate), Options.of(**stated), only=only)


# tools that change nothing, and those that run the project's commands
READING = (
    "compare",
    "first_divergence",
    "explain",
    "diagnose",
    "list_tensors",
    "tensor_statistics",
    "tensor_slice",
    "check_rules",
    "plan_next",
)
RUNNING = ("validate",)


def check_arguments(tool: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Raise UsageError for arguments that a tool does not take, or lacks."""
    takes = signature(tool).parameters
    unknown = next((name for name in arguments if name not in takes), None)
    lacking = next((name for name, one in takes.items() if one.default is one.empty and name not in arguments), None)
    if unknown is not None:
        near = did_you_mean(unknown, takes)
        raise UsageError(f"{tool.__name__} has no argument {unknown!r}{near}; it takes {', '.join(takes)}")
    if lacking is not None:
        raise UsageError(f"{tool.__name__} needs the argument {lacking!r}; it takes {', '.join(takes)}")


def guarded(tool: Callable[..., Any], failure: type[Exception]) -> Callable[..., Any]:
    """Return the tool with a user's mistake raised as the protocol's own error, one sentence."""

    @wraps(tool)
    def call(*args: Any, **arguments: Any) -> Any:
        try:
            return tool(*args, **arguments)
        except FirstdiffError as error:
            raise failure(str(error)) from error
        except OSError as error:
            raise failure(f"{error.filename or tool.__name__}: {error.strerror or error}") from error

    return call
