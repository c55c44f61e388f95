"""The plan of a port: its pipeline as a checklist, the one next task, and when a stage is done."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from firstdiff.errors import FirstdiffError, UsageError
from firstdiff.workflows.project import NO_INPUTS, Project
from firstdiff.workflows.results import Results
from firstdiff.workflows.validation import FULL, ComponentResult, Validation

PLAN = "PLAN.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One line of the checklist, or the next thing to do.

    id: what its line is found by when the plan is written again
    check: the command that tells whether it is done
    """

    id: str
    title: str
    done: bool
    component: str | None = None
    tensor: str | None = None
    cause: str | None = None
    evidence: str | None = None
    fix: str | None = None
    text: str = ""
    check: str = "firstdiff validate"


def tasks_of(project: Project, validations: Sequence[Validation]) -> list[Task]:
    """Return every task in order: reference data, harness, components of the pipeline.

    validations: the newest of each input set
    """
    return [*_data(project), _harness(project, validations), *_components(project, validations)]


def next_task(tasks: Sequence[Task]) -> Task | None:
    """Return the first that is not done; None where everything is."""
    return next((task for task in tasks if not task.done), None)


def newest(project: Project) -> list[Validation]:
    """Return, for each input set, the newest validation of everything, with components that were checked since."""
    results = Results(project.state)
    found = []
    for inputs in project.input_sets(None):
        since: list[Validation] = []
        for validation in results.newest_first():
            if validation.input_set != inputs.name:
                continue
            if validation.scope == FULL:
                found.append(_with_newer_parts(validation, since))
                break
            since.append(validation)
    return found


def _with_newer_parts(whole: Validation, since: Sequence[Validation]) -> Validation:
    """Return a validation with the components that were checked alone since, the newest first, in place of its own."""
    if not since:
        return whole
    newer = {found.scope: found for found in reversed(since)}
    parts = [_part(newer[old.name], old) if old.name in newer else old for old in whole.components]
    broken = next((part for part in parts if not part.passes), None)
    told = newer.get(broken.name, whole) if broken is not None else whole
    answers = broken is not None and told.first == broken.first
    return replace(
        whole,
        passed=broken is None and not whole.inputs and since[0].error is None,
        error=since[0].error,
        components=tuple(parts),
        tensors=(
            *(tensor for tensor in whole.tensors if tensor.component not in newer),
            *(tensor for found in newer.values() for tensor in found.tensors),
        ),
        first=told.first if answers else None,
        cause=told.cause if answers else None,
        evidence=told.evidence if answers else None,
        fix=told.fix if answers else None,
    )


def _part(validation: Validation, old: ComponentResult) -> ComponentResult:
    return next((part for part in validation.components if part.name == old.name), old)


def stage_passes(project: Project, validations: Sequence[Validation], component: str) -> bool:
    """Return whether a stage and all before it pass on every input set; `full` is the whole pipeline."""
    names = _pipeline(project, validations)
    if component != FULL and component not in names:
        known = ", ".join((*names, FULL))
        raise UsageError(f"{project.path}: has no component {component!r}; --until takes one of {known}")
    wanted = names if component == FULL else names[: names.index(component) + 1]
    sets = project.input_sets(None)
    if len(validations) < len(sets) or not wanted:
        return False
    return all(_stage_of(validation, wanted) for validation in validations)


def staleness(project: Project, validations: Sequence[Validation]) -> str | None:
    """Say that the port's files changed since it was validated; None where they did not."""
    from firstdiff.workflows.digests import Digests
    from firstdiff.workflows.validate import code_digest

    now = code_digest(project, Digests(project.state / "digests.json"))
    if any(validation.code is not None and validation.code != now for validation in validations):
        return "the port's files changed since the last validation; run firstdiff validate"
    return None


def _stage_of(validation: Validation, wanted: Sequence[str]) -> bool:
    if validation.inputs or (validation.error and set(wanted) >= {part.name for part in validation.components}):
        return False
    passing = {part.name for part in validation.components if part.passes}
    return set(wanted) <= passing


def _pipeline(project: Project, validations: Sequence[Validation]) -> list[str]:
    if project.components:
        return [component.name for component in project.components]
    return list(dict.fromkeys(part.name for validation in validations for part in validation.components))


def _data(project: Project) -> Iterator[Task]:
    from firstdiff.workflows.digests import Digests
    from firstdiff.workflows.golden import changes_since, golden_trace

    digests = Digests(project.state / "digests.json")
    for inputs in project.input_sets(None):
        text, done = "", False
        try:
            header = golden_trace(project.golden.folder / inputs.name).header
            changes = [change.text for change in changes_since(header, project, inputs, digests)]
            text, done = "; ".join(changes), not changes
        except FirstdiffError as error:
            text = str(error).replace(f"{project.root}{os.sep}", "")
        named = "" if inputs.name == NO_INPUTS else f" for {inputs.name}"
        check = (
            "firstdiff golden" if inputs.name == NO_INPUTS else f"firstdiff golden --input {shlex.quote(inputs.name)}"
        )
        yield Task(id=f"golden:{inputs.name}", title=f"reference data{named}", done=done, text=text, check=check)


def _harness(project: Project, validations: Sequence[Validation]) -> Task:
    """The candidate runs, records, and is given the same as the reference."""
    text = ""
    if project.candidate is None:
        text = "add command under [candidate] in firstdiff.toml"
    elif len(validations) < len(project.input_sets(None)):
        text = "the candidate was not validated on every input set yet"
    for validation in validations:
        text = text or validation.error or "; ".join(validation.inputs)
    return Task(id="harness", title="the candidate runs and records", done=not text, text=text)


def _components(project: Project, validations: Sequence[Validation]) -> Iterator[Task]:
    for name in _pipeline(project, validations):
        parts = [(found, part) for found in validations for part in found.components if part.name == name]
        wrong = next(((found, part) for found, part in parts if not part.passes), None)
        check = f"firstdiff validate --component {shlex.quote(name)}"
        if wrong is not None:
            yield _failing(name, *wrong, check)
        else:
            checked = sum(part.checked for _, part in parts)
            expected = sum(part.expected for _, part in parts)
            text = f"{checked:,}/{expected:,} checked" if parts else "not validated yet"
            yield Task(id=f"component:{name}", title=name, done=bool(parts), component=name, text=text, check=check)


def _failing(name: str, validation: Validation, part: ComponentResult, check: str) -> Task:
    own = next((tensor for tensor in validation.tensors if tensor.key == part.first), None)
    is_first = part.first is not None and validation.first == part.first
    cause = part.cause or (validation.cause if is_first else None)
    fix = (own.fix if own else None) or (validation.fix if is_first else None)
    several = "" if validation.input_set == NO_INPUTS else f" on {validation.input_set}"
    return Task(
        id=f"component:{name}",
        title=name,
        done=False,
        component=name,
        tensor=part.first,
        cause=cause,
        evidence=validation.evidence if is_first else None,
        fix=fix,
        text=f"{part.first or name}{several}: {part.text}",
        check=check,
    )
