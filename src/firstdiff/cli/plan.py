"""`firstdiff plan`: the checklist of a port, and the one next task."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from firstdiff.cli.compare import MISMATCH

if TYPE_CHECKING:
    from firstdiff.workflows.plan import Task
    from firstdiff.workflows.project import Project


def plan(
    next_: Annotated[bool, typer.Option("--next", help="Print the one next task and write no file.")] = False,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="COMPONENT|full", help="Validate first; exit code 0 once this stage and those before pass."
        ),
    ] = None,
    completion_promise: Annotated[
        str | None, typer.Option(metavar="WORD", help="With --until: print this when the stage passes.")
    ] = None,
    max_iterations: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="With --until: give up after N calls without success.")
    ] = None,
    format_: Annotated[Literal["text", "json"], typer.Option("--format", help="The form of the next task.")] = "text",
) -> None:
    """Write the plan of the port, PLAN.md, from the newest results; your own lines in it stay."""
    from firstdiff.cli.console import say
    from firstdiff.errors import UsageError
    from firstdiff.workflows.plan import newest, next_task, stage_passes, staleness, tasks_of
    from firstdiff.workflows.plan_file import write_plan
    from firstdiff.workflows.project import load_project

    project = load_project()
    failure: str | None = None
    if until is None and (completion_promise is not None or max_iterations is not None):
        raise UsageError("--completion-promise and --max-iterations go with --until COMPONENT")
    if until is not None:
        if until != "full" and project.components:
            project.component(until)
        iteration = _count(project, until, max_iterations)
        failure = _validate(project)
    validations = newest(project)
    tasks = tasks_of(project, validations)
    if not next_:
        path = write_plan(project, tasks)
        if until is None:
            _summary(path.name, tasks)
    if until is None and not next_:
        return
    if until is not None and failure is None and stage_passes(project, validations, until):
        _reset(project)
        say(completion_promise or f"{until} passes")
        return
    task = next_task(tasks) if failure is None else _harness(tasks, failure)
    _print(task, format_, staleness(project, validations) if until is None else None)
    if until is not None:
        limit = f" of {max_iterations}" if max_iterations else ""
        if format_ == "text":
            say(f"{until} does not pass yet (iteration {iteration}{limit})")
        raise typer.Exit(MISMATCH)


def _validate(project: Project) -> str | None:
    """Validate every input set; returns why one could not be, which is the next task then."""
    from firstdiff.cli.console import command_output, warn
    from firstdiff.errors import FirstdiffError
    from firstdiff.workflows.validate import ValidateOptions, validate_project

    for inputs in project.input_sets(None):
        try:
            validate_project(project, inputs, ValidateOptions(on_line=command_output("candidate")))
        except FirstdiffError as error:
            warn(str(error))
            return str(error)
    return None


def _harness(tasks: list[Task], failure: str) -> Task:
    """Return the task of making the candidate run."""
    return replace(next(task for task in tasks if task.id == "harness"), done=False, text=failure)


def _count(project: Project, until: str, most: int | None) -> int:
    """Count the calls of one loop; FirstdiffError once there were too many."""
    from firstdiff.errors import FirstdiffError, WriteError
    from firstdiff.workflows.results import Results, write_whole

    Results(project.state).candidate("")
    path = project.state / "loop.json"
    known: dict[str, object] = {}
    with suppress(OSError, ValueError):
        known = json.loads(path.read_text(encoding="utf-8"))
    before = known.get("calls", 0) if known.get("until") == until else 0
    calls = (before if isinstance(before, int) else 0) + 1
    if most is not None and calls > most:
        _reset(project)
        raise FirstdiffError(f"{until} does not pass after {most} iterations; the next call counts from 1 again")
    try:
        write_whole(path, json.dumps({"until": until, "calls": calls}))
    except OSError as error:
        raise WriteError(f"cannot write {path} ({error.strerror or error})") from error
    return calls


def _reset(project: Project) -> None:
    (project.state / "loop.json").unlink(missing_ok=True)


def _summary(name: str, tasks: list[Task]) -> None:
    from firstdiff.cli.console import say
    from firstdiff.reports.terminal import shown

    say(f"wrote {name}: {sum(task.done for task in tasks)} of {len(tasks)} done")
    for task in tasks:
        say(f"  [{'x' if task.done else ' '}] {shown(task.title)}{f': {shown(task.text)}' if task.text else ''}")


def _print(task: Task | None, form: str, stale: str | None) -> None:
    from firstdiff.cli.console import say, warn
    from firstdiff.json_text import to_json
    from firstdiff.reports.terminal import shown

    if stale:
        warn(stale)
    if form == "json":
        say(to_json({"task": task}, indent=1))
        return
    if task is None:
        say("everything passes; there is no next task")
        return
    say(f"Next: {shown(task.title)}", "bold")
    parts = {"tensor": task.tensor, "what": task.text, "cause": task.cause, "evidence": task.evidence, "fix": task.fix}
    for name, text in {**parts, "check": task.check}.items():
        if text:
            say(f"  {name}: {shown(text)}")
