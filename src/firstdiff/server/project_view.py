"""A project's state for the page: components over runs, the latest validation, the plan."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from firstdiff.errors import FirstdiffError
from firstdiff.judge import NamedRule
from firstdiff.pairing import map_text
from firstdiff.server.schemas import OptionsIn
from firstdiff.workflows.plan import newest, tasks_of
from firstdiff.workflows.project import Project, load_project
from firstdiff.workflows.results import Results
from firstdiff.workflows.validation import FULL, ComponentState, Validation

_MOST_RUNS = 24


@dataclass(frozen=True, slots=True)
class ProjectComponent:
    """One stage on one input set; `history` is its state in each run, the oldest first, None where it was not run."""

    name: str
    state: ComponentState
    checked: int
    expected: int
    first: str | None
    text: str
    cause: str | None
    history: tuple[ComponentState | None, ...]


@dataclass(frozen=True, slots=True)
class ProjectValidation:
    """The newest validation of one input set."""

    input_set: str
    passed: bool
    made: str
    error: str | None
    inputs: tuple[str, ...]
    warnings: tuple[str, ...]
    first: str | None
    cause: str | None
    fix: str | None
    components: tuple[ProjectComponent, ...]


@dataclass(frozen=True, slots=True)
class ProjectTask:
    """One line of the plan."""

    title: str
    done: bool
    text: str
    cause: str | None
    fix: str | None
    check: str


@dataclass(frozen=True, slots=True)
class ProjectOut:
    """The project of the folder that the server was started in.

    running: the input set that the candidate runs on right now
    error: why the project file cannot be read
    """

    name: str
    path: str
    running: str | None
    error: str | None
    validations: tuple[ProjectValidation, ...]
    tasks: tuple[ProjectTask, ...]


@dataclass(frozen=True, slots=True)
class ProjectAnswer:
    """None where the server was started outside of a project."""

    project: ProjectOut | None


def project_view(path: Path) -> ProjectOut:
    """Read the project and its results anew."""
    name = path.parent.name
    try:
        project = load_project(path)
        latest = newest(project)
        tasks = tasks_of(project, latest)
    except FirstdiffError as error:
        return ProjectOut(name, str(path), None, str(error), (), ())
    runs = list(Results(project.state).newest_first())
    return ProjectOut(
        name,
        str(path),
        _running(project),
        None,
        tuple(_validation(found, runs) for found in latest),
        tuple(ProjectTask(task.title, task.done, task.text, task.cause, task.fix, task.check) for task in tasks),
    )


def sides_of(path: Path, input_set: str) -> tuple[str, str]:
    """Return the golden and the candidate's newest trace of an input set, as paths."""
    project = load_project(path)
    (inputs,) = project.input_sets(input_set)
    found = Results(project.state).latest(inputs.name, FULL)
    golden = project.golden.folder / inputs.name if found is None else project.root / found.golden
    candidate = project.state / "candidate" / inputs.name if found is None else project.root / found.candidate
    return str(golden), str(candidate)


def options_of(path: Path) -> OptionsIn:
    """Return how `validate` compares in this project, as a request of the page."""
    project = load_project(path)
    return OptionsIn(
        tolerances="".join(map(_as_toml, project.rules)) or None,
        map=None if project.map is None else map_text(project.map),
        allow_missing=True,
        allow_extra=True,
        layout="strict",
        accept_layout=list(project.accept_layout),
    )


def _as_toml(rule: NamedRule) -> str:
    limits = {"atol": rule.atol, "rtol": rule.rtol, "k": rule.k}
    stated = "".join(f"{name} = {value!r}\n" for name, value in limits.items() if value is not None)
    return f"[[tolerances]]\nname = {json.dumps(rule.pattern.pattern)}\n{stated}"


def _validation(found: Validation, runs: list[Validation]) -> ProjectValidation:
    own = [run for run in runs if run.input_set == found.input_set][:_MOST_RUNS]
    states = [{part.name: part.state for part in run.components} for run in reversed(own)]
    return ProjectValidation(
        found.input_set,
        found.passed,
        found.made,
        found.error,
        found.inputs,
        found.warnings,
        found.first,
        found.cause,
        found.fix,
        tuple(
            ProjectComponent(
                part.name,
                part.state,
                part.checked,
                part.expected,
                part.first,
                part.text,
                part.cause,
                tuple(run.get(part.name) for run in states),
            )
            for part in found.components
        ),
    )


def _running(project: Project) -> str | None:
    try:
        mark = json.loads((project.state / "running.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return str(mark.get("input_set")) if isinstance(mark, dict) else None
