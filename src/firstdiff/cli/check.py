"""`firstdiff check`: rules that a trace must keep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

FAILED = 1


def check(
    traces: Annotated[
        list[Path], typer.Argument(metavar="TRACE...", help="The run to check; several only with --measure.")
    ],
    rules: Annotated[Path, typer.Option("--rules", metavar="R.toml", help="A TOML file with [[rules]].")],
    measure: Annotated[
        Path | None,
        typer.Option(metavar="BANDS.toml", help="Take the runs as references and write the bands of `changed` rules."),
    ] = None,
    every_failure: Annotated[bool, typer.Option("--all", help="Show every tensor that breaks a rule.")] = False,
    order: Annotated[
        str | None, typer.Option(metavar="numbered|layer_stage|natural", help="How names of plain files order them.")
    ] = None,
    format_: Annotated[Literal["text", "json"], typer.Option("--format", help="How to print it.")] = "text",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the report to a file.")] = None,
) -> None:
    """Check what must hold in a run.

    Exit code 0: all rules hold; 1: one does not; 2: bad input.
    """
    from firstdiff.checks import check_trace, load_rule_file, measure_bands
    from firstdiff.cli.console import progress_bar, say, warn, write_report
    from firstdiff.cli.options import stated_order
    from firstdiff.errors import UsageError
    from firstdiff.json_text import to_json
    from firstdiff.readers import open_trace
    from firstdiff.reports.terminal import shown

    rule, stated = stated_order(order), load_rule_file(rules)
    if measure is not None:
        write_report(measure, [measure_bands([open_trace(path, order=rule) for path in traces], stated)])
        say(f"wrote {shown(str(measure))}, measured from {len(traces)} trace{'' if len(traces) == 1 else 's'}")
        return
    if len(traces) > 1:
        raise UsageError(f"check takes one trace, not {len(traces)}; several are references for --measure")
    with progress_bar("checking") as on_progress:
        report = check_trace(open_trace(traces[0], order=rule), stated, on_progress)
    for warning in report.warnings:
        warn(warning)
    if format_ == "json":
        lines = [to_json(report.to_plain(), indent=1)]
    else:
        lines = [shown(line) for line in report.lines(every_failure=every_failure)]
    if output is None:
        for line in lines:
            say(line, "bold red" if line.startswith("FAILED") else None)
    else:
        write_report(output, (f"{line}\n" for line in lines))
    if not report.passed:
        raise typer.Exit(FAILED)
