"""Validate a port: run it, compare what it recorded with the golden, judge it component by component."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from firstdiff import __version__
from firstdiff.comparing import OnProgress, Options, compare_traces
from firstdiff.errors import FirstdiffError, UsageError
from firstdiff.judge.rules import Rules
from firstdiff.readers import open_trace
from firstdiff.schema import Comparison
from firstdiff.trace import LINES, Trace
from firstdiff.workflows.command import CommandError, OnLine
from firstdiff.workflows.digests import Digests
from firstdiff.workflows.golden import Staging, changes_since, golden_trace, recorded_trace, run_side
from firstdiff.workflows.inputs_first import differing_inputs, stated_differences
from firstdiff.workflows.plan_file import record_fixes
from firstdiff.workflows.project import Component, InputSet, Project
from firstdiff.workflows.results import Results
from firstdiff.workflows.validation import (
    FULL,
    OTHER,
    ComponentResult,
    TensorResult,
    Validation,
    component_results,
    derived_components,
    nothing_matches,
    tensor_results,
)
from firstdiff.workflows.watch import candidate_files


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateOptions:
    """Options of a validation.

    scope: the name of one component, or "full"
    isolate: judge components on golden inputs, where the port asks for them, and operations on their own inputs
    require_all: every tensor of the golden must be checked
    rules: tolerances in place of the project's
    """

    scope: str = FULL
    isolate: bool = False
    require_all: bool = False
    rules: Rules | None = None
    on_line: OnLine | None = None
    on_progress: OnProgress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationRun:
    """The result, the comparison behind it, and the entry that FIXES.md got."""

    validation: Validation
    comparison: Comparison
    fixes: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Context:
    """Facts known before the two traces are compared."""

    input_set: str
    golden: str
    candidate: str
    components: Sequence[Component]
    inputs: Sequence[str] = ()
    given: Sequence[str] = ()
    error: str | None = None
    warnings: Sequence[str] = ()
    seconds: float | None = None
    code: str | None = None
    compare: Options = field(default_factory=Options)


def validate_project(
    project: Project,
    inputs: InputSet,
    options: ValidateOptions,
    *,
    golden: Path | None = None,
    candidate: Path | None = None,
) -> ValidationRun:
    """Validate on one input set, and keep the result in the project's folder.

    golden: the golden folder in place of the project's: one with a folder for each input set, or a trace
    candidate: a trace that is there already; the candidate command is not run
    """
    scope = () if options.scope == FULL else (project.component(options.scope),)
    path = golden_path(golden or project.golden.folder, inputs)
    reference = golden_trace(path)
    for component in scope:
        if not any(component.holds(name) for name in _names(reference)):
            raise UsageError(
                f"{project.path}: component {component.name!r}: {nothing_matches(component, _names(reference))}"
            )
    digests = Digests(project.state / "digests.json")
    changes = changes_since(reference.header, project, inputs, digests)
    results = Results(project.state)
    seconds, error = None, None
    if candidate is None:
        with results.running(inputs.name):
            target = results.candidate(inputs.name)
            seconds, error = _run_candidate(project, inputs, target, path, scope, options)
    else:
        target = candidate
    trace = open_trace(target)
    context = _Context(
        input_set=inputs.name,
        golden=project.shown(path),
        candidate=project.shown(target),
        components=scope or project.components or derived_components(_names(reference)),
        inputs=[change.text for change in changes if change.kind in ("inputs", "files")],
        given=project.golden.inputs,
        error=error,
        warnings=[
            f"{change.text}; `firstdiff golden` makes it again"
            for change in changes
            if change.kind in ("code", "version")
        ],
        seconds=seconds,
        code=code_digest(project, digests),
        compare=Options.of(
            layout="strict",
            map=project.map,
            accept_layout=project.accept_layout,
            isolate=options.isolate,
            allow_missing=True,
            allow_extra=True,
        ),
    )
    rules = options.rules or Rules(named=project.rules)
    run = _compare(reference, trace, replace(context, compare=replace(context.compare, rules=rules)), options)
    earlier = results.latest(inputs.name, options.scope, isolate=options.isolate)
    results.add(run.validation)
    fixes = record_fixes(project, earlier, run.validation)
    return replace(run, fixes=fixes)


def validate_traces(golden: Path, candidate: Path, options: ValidateOptions) -> ValidationRun:
    """Validate one folder against another, without a project; a folder with one golden in it stands for that."""
    if golden.is_dir() and not (golden / LINES).is_file():
        within = sorted(lines.parent for lines in golden.glob(f"[!.]*/{LINES}"))
        if len(within) > 1:
            names = ", ".join(path.name for path in within)
            raise UsageError(f"{golden}: holds the goldens {names}; name one, such as --golden {within[0]}")
        golden = within[0] if within else golden
    reference, trace = golden_trace(golden), open_trace(candidate)
    components = derived_components(_names(reference))
    if options.scope != FULL:
        components = tuple(component for component in components if component.name == options.scope)
        if not components:
            known = ", ".join(component.name for component in derived_components(_names(reference)))
            raise UsageError(f"{golden}: has no component {options.scope!r}; its names begin with {known}")
    compare = Options.of(layout="strict", isolate=options.isolate, allow_missing=True, allow_extra=True)
    compare = replace(compare, rules=options.rules or Rules())
    context = _Context(
        input_set=golden.name,
        golden=str(golden),
        candidate=str(candidate),
        components=components,
        compare=compare,
    )
    return _compare(reference, trace, context, options)


def golden_path(folder: Path, inputs: InputSet) -> Path:
    """Return the golden of an input set: its folder, or the folder itself where that is a trace."""
    with suppress(PermissionError):  # opening it says so
        return folder if (folder / LINES).is_file() or folder.is_file() else folder / inputs.name
    return folder / inputs.name


def _run_candidate(
    project: Project,
    inputs: InputSet,
    target: Path,
    golden: Path,
    scope: Sequence[Component],
    options: ValidateOptions,
) -> tuple[float | None, str | None]:
    """Run it; a run that fails half-way leaves what it recorded and a sentence."""
    command = project.command("candidate")
    only = [] if options.isolate else [glob for component in scope for glob in component.globs]
    with Staging(target) as staging:
        try:
            seconds: float | None = run_side(
                command,
                inputs,
                staging.path,
                only=only,
                golden=golden.absolute() if options.isolate else None,
                on_line=options.on_line,
            )
            error = None
        except CommandError as failure:
            if not failure.started or not (staging.path / LINES).is_file():
                raise
            seconds, error = None, str(failure)
        try:
            recorded_trace(staging.path, command, only)
        except FirstdiffError:
            if error is not None:  # it failed before its first tensor
                raise CommandError(error) from None
            raise
        staging.keep()
    return seconds, error


def _compare(reference: Trace, candidate: Trace, context: _Context, options: ValidateOptions) -> ValidationRun:
    stated = [*context.inputs, *stated_differences(reference, candidate)]
    scoped = options.scope != FULL
    ref = _only(reference, context.components) if scoped else reference
    cand = _only(candidate, context.components) if scoped else candidate
    compare = replace(context.compare, diagnose=not stated)
    comparison = compare_traces(ref, cand, compare, options.on_progress)
    tensors = tensor_results(comparison, context.components, isolate=options.isolate)
    components = component_results(
        context.components, tensors, require_all=options.require_all, known=_names(reference)
    )
    different = list(dict.fromkeys([*stated, *differing_inputs(comparison, context.given)]))
    return ValidationRun(
        validation=_validation(comparison, context, options, tensors, components, different), comparison=comparison
    )


def _validation(
    comparison: Comparison,
    context: _Context,
    options: ValidateOptions,
    tensors: Sequence[TensorResult],
    components: Sequence[ComponentResult],
    different: Sequence[str],
) -> Validation:
    first = comparison.first_divergence
    best = comparison.diagnosis[0] if comparison.diagnosis and not different else None
    warnings = [*context.warnings, *comparison.warnings, *_isolation_note(tensors, options)]
    others = [tensor.key for tensor in tensors if tensor.component == OTHER and tensor.status != "EXTRA"]
    if others:
        belong = "1 tensor belongs" if len(others) == 1 else f"{len(others):,} tensors belong"
        warnings.append(f"{belong} to no component, such as {others[0]}")
    if options.scope == FULL and not components:
        warnings.append("the golden holds no tensor")
    return Validation(
        version=__version__,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        input_set=context.input_set,
        golden=context.golden,
        candidate=context.candidate,
        scope=options.scope,
        isolate=options.isolate,
        passed=bool(components)
        and all(component.passes for component in components)
        and not different
        and context.error is None,
        inputs=tuple(different),
        error=context.error,
        warnings=tuple(dict.fromkeys(warnings)),
        components=tuple(replace(part, cause=None) for part in components) if different else tuple(components),
        tensors=tuple(replace(tensor, cause=None, fix=None) for tensor in tensors) if different else tuple(tensors),
        first=first.key if first else None,
        cause=best.cause if best else None,
        evidence=best.evidence if best else None,
        fix=best.fix if best else None,
        seconds=context.seconds,
        code=context.code,
    )


def _isolation_note(tensors: Sequence[TensorResult], options: ValidateOptions) -> list[str]:
    if not options.isolate or any(tensor.isolated in ("match", "mismatch") for tensor in tensors):
        return []
    return [
        "--isolate: no operation could be judged alone, for neither inputs nor operators were recorded; components are "
        "judged alone only where the port asks for golden inputs (fd.load_golden, a client's load_golden)"
    ]


def _only(trace: Trace, components: Sequence[Component]) -> Trace:
    kept = tuple(tensor for tensor in trace if any(component.holds(tensor.name) for component in components))
    return replace(trace, tensors=kept)


def _names(trace: Trace) -> list[str]:
    return [tensor.name for tensor in trace]


def code_digest(project: Project, digests: Digests) -> str | None:
    """Return a digest of the candidate's files, which tells whether anything was changed between two runs."""
    found: Mapping[str, str] = digests.of_files(candidate_files(project), project.root)
    digests.save()
    return hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest() if found else None
