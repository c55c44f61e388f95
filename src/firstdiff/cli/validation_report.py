"""Report a validation as text: tensors, components, first divergence and its cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from firstdiff.errors import UsageError
from firstdiff.json_text import to_json
from firstdiff.reports.github import add_to_summary, annotation
from firstdiff.reports.sentences import answer, divergence
from firstdiff.reports.terminal import columns, paint, shown
from firstdiff.workflows.validate import ValidationRun
from firstdiff.workflows.validation import FAILURES, ComponentResult, TensorResult, Validation

FORMATS = ("text", "json", "md", "github")
_MOST_ROWS = 40
_STATES = {"pass": "PASS", "fail": "FAIL", "unchecked": "NOT CHECKED", "absent": "NO TENSORS"}


def check_format(form: str) -> None:
    """Refuse a form that there is none of; UsageError lists the others."""
    if form not in FORMATS:
        raise UsageError(f"--format is {form!r}; it takes one of {', '.join(FORMATS)}")


def render(runs: Sequence[ValidationRun], form: str, *, every_row: bool = False) -> Iterator[str]:
    """Return the report of validations, one for each input set."""
    if form == "json":
        results = [run.validation for run in runs]
        return iter((to_json(results[0] if len(results) == 1 else results, indent=1) + "\n",))
    if form == "github":
        return (piece for run in runs for piece in _github(run, every_row))
    if form == "md":
        return (piece for run in runs for piece in _markdown(run, every_row))
    return (piece for run in runs for piece in _text(run, every_row))


def headline(validation: Validation) -> str:
    """Return the verdict and how many components pass."""
    passing = sum(component.passes for component in validation.components)
    counts = f"{passing} of {len(validation.components)} components pass"
    checked = sum(component.checked for component in validation.components)
    expected = sum(component.expected for component in validation.components)
    of = f"{checked:,} of {expected:,} golden tensors checked"
    return f"{'PASS' if validation.passed else 'FAIL'} {validation.input_set}: {counts}, {of}"


def _text(run: ValidationRun, every_row: bool) -> Iterator[str]:
    validation = run.validation
    yield paint(shown(headline(validation)), "bold green" if validation.passed else "bold red") + "\n"
    yield f"golden     {shown(validation.golden)}\ncandidate  {shown(validation.candidate)}\n"
    for warning in validation.warnings:
        yield paint(f"warning: {shown(warning)}", "yellow") + "\n"
    if validation.error:
        yield paint(f"ERROR: {shown(validation.error)}", "red") + "\n"
    if validation.inputs:
        yield from _inputs(validation)
    yield "\n"
    yield from _tensors(validation.tensors, every_row)
    yield "\n"
    for line, component in _component_lines(validation.components):
        yield (line if component is None or component.passes else paint(line, "red")) + "\n"
    if not validation.inputs:
        yield from _first(run)
    if run.fixes:
        yield f"\nFIXES.md: {shown(run.fixes)}\n"
    yield "\n"


def _inputs(validation: Validation) -> Iterator[str]:
    head = "The two runs had different inputs, files or settings, so no cause is searched for:"
    yield "\n" + paint(head, "bold red") + "\n"
    for text in validation.inputs:
        yield f"  {shown(text)}\n"
    yield "  Use the same on both sides, or run `firstdiff golden` again, then validate.\n"


def _listed(tensors: Sequence[TensorResult]) -> list[TensorResult]:
    """Return the tensors that a report has a line for: outputs, and inputs and weights that fail."""
    return [tensor for tensor in tensors if tensor.counts or tensor.status in FAILURES]


def _tensors(tensors: Sequence[TensorResult], every_row: bool) -> Iterator[str]:
    listed = _listed(tensors)
    if len(listed) > _MOST_ROWS and not every_row:
        failing = [tensor for tensor in listed if tensor.status in FAILURES]
        hidden = len(listed) - len(failing[:_MOST_ROWS])
        listed = failing[:_MOST_ROWS]
    else:
        hidden = 0
    rows = [(tensor.status, shown(tensor.key), shown(tensor.text)) for tensor in listed]
    for line, tensor in zip(columns(rows, shrinks=1), listed, strict=True):
        yield (paint(line, "red") if tensor.status in FAILURES else line) + "\n"
    if hidden:
        yield paint(f"… and {hidden:,} more tensors (--all prints every one)", "dim") + "\n"


def _component_lines(components: Sequence[ComponentResult]) -> Iterator[tuple[str, ComponentResult | None]]:
    rows = [("component", "state", "checked", "first failure"), *map(_cells, components)]
    lines = columns(rows, frozenset({2}), shrinks=3)
    yield from zip(lines, (None, *components), strict=True)


def _cells(component: ComponentResult) -> tuple[str, ...]:
    cause = f" ({component.cause})" if component.cause else ""
    first = f"{component.first}: " if component.first else ""
    share = f"{component.checked:,}/{component.expected:,}"
    return shown(component.name), _STATES[component.state], share, shown(f"{first}{component.text}{cause}")


def _first(run: ValidationRun) -> Iterator[str]:
    first = run.comparison.first_divergence
    if first is None:
        return
    yield "\n" + paint(shown(divergence(run.comparison, first)), "bold") + "\n"
    for line in answer(run.comparison):
        yield f"  {shown(line)}\n"


def _markdown(run: ValidationRun, every_row: bool = False) -> Iterator[str]:
    validation = run.validation
    yield f"## firstdiff: {headline(validation)}\n\n"
    for text in validation.inputs:
        yield f"- **not the same inputs**: {_inline(text)}\n"
    for text in filter(None, (validation.error, *validation.warnings)):
        yield f"- {_inline(text)}\n"
    yield "\n| component | state | checked | first failure |\n|---|---|---|---|\n"
    for component in validation.components:
        yield f"| {' | '.join(map(_inline, _cells(component)))} |\n"
    first = run.comparison.first_divergence
    if first is not None and not validation.inputs:
        yield f"\n**{_inline(divergence(run.comparison, first))}**\n\n"
        yield from (f"- {_inline(line)}\n" for line in answer(run.comparison))
    failing = [tensor for tensor in validation.tensors if tensor.status in FAILURES]
    listed = _listed(validation.tensors) if every_row else failing[:_MOST_ROWS]
    if listed:
        yield "\n| tensor | status | |\n|---|---|---|\n"
        for tensor in listed:
            yield f"| {_inline(tensor.key)} | {tensor.status} | {_inline(tensor.text)} |\n"
    if len(failing) > len(listed):
        yield f"\n… and {len(failing) - len(listed):,} more (--all prints every one).\n"
    yield "\n"


def _github(run: ValidationRun, every_row: bool) -> Iterator[str]:
    """Return annotations, and add the Markdown to the job's summary."""
    validation = run.validation
    add_to_summary(_markdown(run, every_row))
    if validation.passed:
        yield annotation("notice", "firstdiff validate", headline(validation))
    for text in filter(None, (validation.error, *validation.inputs)):
        yield annotation("error", f"firstdiff validate {validation.input_set}", text)
    for component in validation.components:
        if not component.passes:
            fix = validation.fix if component.first == validation.first else None
            text = "\n".join(filter(None, (_cells(component)[3], fix and f"Fix: {fix}")))
            yield annotation("error", f"{validation.input_set}: {component.name} {_STATES[component.state]}", text)
    for text in validation.warnings:
        yield annotation("warning", "firstdiff validate", text)


def _inline(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\`*_<>|[]" else letter for letter in shown(text))
