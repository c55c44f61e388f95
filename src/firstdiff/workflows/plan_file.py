"""Write PLAN.md and FIXES.md: a checklist that keeps the user's own lines, and a log of fixes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from firstdiff.errors import WriteError
from firstdiff.workflows.plan import PLAN, Task
from firstdiff.workflows.project import Project
from firstdiff.workflows.results import write_whole
from firstdiff.workflows.validation import FAILURES, TensorResult, Validation, first_of

FIXES = "FIXES.md"
_MARK = re.compile(r"<!-- fd:(?P<id>[^>]*?) -->\s*$")
_HEAD = "# Plan\n\nWritten by `firstdiff plan`; it updates the lines that end in a mark and keeps all others.\n"
_FIXES_HEAD = "# Fixes\n\nWritten by `firstdiff validate`: what began to pass, and changes without effect.\n"
_MOST_LISTED = 12


def write_plan(project: Project, tasks: Sequence[Task]) -> Path:
    """Write PLAN.md: marked lines are replaced where they stand, new ones are added, everything else stays."""
    path = project.root / PLAN
    try:
        old = path.read_text(encoding="utf-8") if path.exists() else _HEAD
        write_whole(path, updated(old, tasks))
    except (OSError, UnicodeDecodeError) as error:
        raise WriteError(f"cannot write {path} ({getattr(error, 'strerror', None) or error})") from error
    return path


def updated(text: str, tasks: Sequence[Task]) -> str:
    """Return a plan with the state of today."""
    lines = {task.id: list(_lines(task)) for task in tasks}
    kept: list[str] = []
    written: set[str] = set()
    for line in text.splitlines():
        found = _MARK.search(line)
        if found is None:
            kept.append(line)
            continue
        name, _, part = found["id"].partition("#")
        if part or name not in lines or name in written:  # details, tasks that are no more, and copies
            continue
        kept += lines[name]
        written.add(name)
    fresh = [line for task in tasks if task.id not in written for line in lines[task.id]]
    if fresh:
        place = _after_last_task(kept)
        gap = [] if place and _MARK.search(kept[place - 1]) else [""]
        kept[place:place] = gap + fresh
    return "\n".join(kept).rstrip() + "\n"


def _after_last_task(lines: Sequence[str]) -> int:
    marked = [place for place, line in enumerate(lines) if _MARK.search(line)]
    if marked:
        return marked[-1] + 1
    return len(lines)


def _lines(task: Task) -> Iterator[str]:
    """Return the line of a task, and those of what is known about a failing one."""
    tail = f": {_inline(task.text)}" if task.text else ""
    yield f"- [{'x' if task.done else ' '}] {_inline(task.title)}{tail} <!-- fd:{task.id} -->"
    if task.done:
        return
    if task.cause:
        evidence = f": {_inline(task.evidence)}" if task.evidence else ""
        yield f"  - cause: `{task.cause}`{evidence} <!-- fd:{task.id}#cause -->"
    if task.fix:
        yield f"  - fix: {_inline(task.fix)} <!-- fd:{task.id}#fix -->"
    yield f"  - check: `{task.check}` <!-- fd:{task.id}#check -->"


def record_fixes(project: Project, earlier: Validation | None, now: Validation) -> str | None:
    """Add an entry to FIXES.md where tensors began to pass, or where a change of the port changed nothing.

    Only projects with a plan have one. Returns the entry's first line.

    earlier: the validation before, of the same input set
    """
    if earlier is None or not (project.root / PLAN).exists():
        return None
    entry = fixes_entry(earlier, now)
    if entry is None:
        return None
    path = project.root / FIXES
    try:
        old = path.read_text(encoding="utf-8") if path.exists() else _FIXES_HEAD
        write_whole(path, f"{old.rstrip()}\n\n{entry}")
    except (OSError, UnicodeDecodeError) as error:
        raise WriteError(f"cannot write {path} ({getattr(error, 'strerror', None) or error})") from error
    return entry.splitlines()[0].removeprefix("## ")


def fixes_entry(earlier: Validation, now: Validation) -> str | None:
    """Return the entry for what changed between two validations; None where there is nothing to say."""
    before = {tensor.key: tensor for tensor in earlier.tensors}
    fixed = [
        (before[tensor.key], tensor)
        for tensor in now.tensors
        if tensor.status == "PASS" and tensor.key in before and before[tensor.key].status in FAILURES
    ]
    day = now.made.replace("T", " ").partition("+")[0]
    first = first_of([old for old, _ in fixed])
    if first is not None:
        fixed.sort(key=lambda both: (both[0] is not first, both[0].cause is None))
        head = f"## {day}: {_inline(first.key)} passes on {_inline(now.input_set)}\n\n"
        return head + "".join(_fixed_line(old, new) for old, new in fixed[:_MOST_LISTED]) + _more(len(fixed))
    first = first_of(_failing(earlier))
    if earlier.code == now.code or earlier.code is None or first is None:
        return None
    same = next((tensor for tensor in now.tensors if tensor.key == first.key), None)
    if same is None or (same.status, same.max_abs, same.mean_abs) != (first.status, first.max_abs, first.mean_abs):
        return None
    return (
        f"## {day}: a change had no effect on {_inline(now.input_set)}\n\n"
        f"- the port's files changed, and {_inline(first.key)} is as before: {_inline(first.text)}"
        f"{_cause(first)}. Undo it, or look elsewhere.\n"
    )


def _failing(validation: Validation) -> list[TensorResult]:
    return [tensor for tensor in validation.tensors if tensor.status in FAILURES]


def _fixed_line(old: TensorResult, new: TensorResult) -> str:
    return f"- {_inline(old.key)}: {_inline(old.text)} before, {_inline(new.text)} now{_cause(old)}\n"


def _cause(tensor: TensorResult) -> str:
    return f"; cause `{tensor.cause}`" if tensor.cause else ""


def _more(count: int) -> str:
    return f"- … and {count - _MOST_LISTED:,} more\n" if count > _MOST_LISTED else ""


def _inline(text: str) -> str:
    """Make a text fit one line of Markdown, and unable to end a comment."""
    return " ".join(text.split()).replace("<!--", "<! --").replace("-->", "-- >")
