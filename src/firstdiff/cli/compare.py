"""`firstdiff compare`: two runs, tensor by tensor."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from firstdiff.cli.options import Align, Candidate, LayerOffset, MapFile, Reference

if TYPE_CHECKING:
    from firstdiff.comparing import Options

MISMATCH = 1


def compare(
    reference: Reference,
    candidate: Candidate,
    control: Annotated[
        str | None, typer.Option(metavar="RUN", help="A run known to be good at CAND's precision, to judge it by.")
    ] = None,
    atol: Annotated[float | None, typer.Option(help="Allow |c - r| <= atol + rtol * |r| for every tensor.")] = None,
    rtol: Annotated[float | None, typer.Option(help="See --atol; one alone leaves the other at 0.")] = None,
    tolerances: Annotated[
        str | None, typer.Option(metavar="FILE|torch", help="A TOML file with [[tolerances]], or torch's table.")
    ] = None,
    equal_nan: Annotated[bool, typer.Option("--equal-nan", help="Let NaN match NaN at the same place.")] = False,
    allow_missing: Annotated[bool, typer.Option("--allow-missing", help="Tensors only REF has do not count.")] = False,
    allow_extra: Annotated[bool, typer.Option("--allow-extra", help="Tensors only CAND has do not count.")] = False,
    allow_partial: Annotated[
        bool, typer.Option("--allow-partial", help="Tensors one side has only a part of do not count.")
    ] = False,
    strict_functions: Annotated[
        bool, typer.Option("--strict-functions", help="Count what is written differently in a module that matches.")
    ] = False,
    map_file: MapFile = None,
    layer_offset: LayerOffset = None,
    layout: Annotated[Literal["auto", "strict"], typer.Option(help="strict: only the same layout matches.")] = "auto",
    accept_layout: Annotated[
        list[str] | None, typer.Option(metavar="transpose,…", help="Layouts that may match all the same.")
    ] = None,
    align: Align = None,
    isolate: Annotated[
        bool, typer.Option("--isolate", help="Also judge every operation on the candidate's own inputs.")
    ] = False,
    sort: Annotated[Literal["order", "worst"], typer.Option(help="By execution, or the worst first.")] = "order",
    every_row: Annotated[bool, typer.Option("--all", help="Show every row of a long comparison.")] = False,
    order: Annotated[
        str | None, typer.Option(metavar="numbered|layer_stage|natural", help="How names of plain files order them.")
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", metavar="text|json|jsonl|junit|md|github|html", help="The form of the report.")
    ] = "text",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the report to a file.")] = None,
    effort: Annotated[
        str | None, typer.Option(metavar="SECONDS|full", help="CPU time for causes and fruitless layouts; 2 s.")
    ] = None,
    engine: Annotated[Literal["auto", "numpy"], typer.Option(help="numpy: without the compiled kernel.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="How many threads; all cores if left out.")] = None,
    vocab: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A vocabulary, to decode ids and the best tokens of logits.")
    ] = None,
    as_: Annotated[
        Literal["values", "distribution"],
        typer.Option("--as", help="distribution: samples of generators that are not shared."),
    ] = "values",
) -> None:
    """Compare two runs.

    Exit code 0: they match; 1: they do not, or nothing was compared; 2: bad input.
    """
    from firstdiff.cli.console import comparison_progress, write_report
    from firstdiff.cli.options import stated_order
    from firstdiff.comparing import Options, compare_traces
    from firstdiff.comparing.options import parse_effort
    from firstdiff.reports import report_named
    from firstdiff.reports.text import render

    rule = stated_order(order)
    if as_ == "distribution":
        unused = {"--atol": atol, "--rtol": rtol, "--tolerances": tolerances, "--align": align, "--isolate": isolate}
        _refuse(
            [name for name, value in {**unused, "--accept-layout": accept_layout, "--vocab": vocab}.items() if value]
        )
        options = Options.of(
            allow_missing=allow_missing, allow_extra=allow_extra, map=map_file, layer_offset=layer_offset, order=rule
        )
        _as_samples(reference, candidate, options, format_, output)
        return
    report = None if format_ == "html" else report_named(format_)
    options = Options.of(
        atol=atol,
        rtol=rtol,
        tolerances=tolerances,
        equal_nan=equal_nan,
        allow_missing=allow_missing,
        allow_extra=allow_extra,
        allow_partial=allow_partial,
        strict_functions=strict_functions,
        map=map_file,
        layer_offset=layer_offset,
        layout=layout,
        accept_layout=accept_layout or (),
        align=align or (),
        isolate=isolate,
        order=rule,
        engine=engine,
        threads=threads,
        vocab=vocab,
        effort=parse_effort(effort),
    )
    with comparison_progress() as on_progress:
        # a terminal shows what was found until Ctrl-C; files and programs get whole results or none
        partial = output is None and format_ == "text"
        comparison = compare_traces(reference, candidate, options, on_progress, control=control, keep_partial=partial)
    if report is None:
        from firstdiff.server.offline_page import page_of

        pieces = iter((page_of(comparison, reference, candidate, rule),))
    elif format_ == "text":
        pieces = render(comparison, sort=sort, every_row=every_row)
    else:
        pieces = report.render(comparison)
    if output is None:
        for piece in pieces:
            sys.stdout.write(piece)
    else:
        write_report(output, pieces)
    if not comparison.complete:
        raise KeyboardInterrupt
    if comparison.verdict != "match":
        raise typer.Exit(MISMATCH)


def _refuse(options: list[str]) -> None:
    from firstdiff.errors import UsageError

    if options:
        raise UsageError(f"--as distribution compares no values, so that {', '.join(options)} has no meaning with it")


def _as_samples(reference: Path, candidate: Path, options: Options, format_: str, output: Path | None) -> None:
    """Compare distributions and print them; Exit 1 where they differ."""
    from firstdiff.cli.console import write_report
    from firstdiff.comparing import compare_distributions
    from firstdiff.errors import UsageError
    from firstdiff.json_text import to_json
    from firstdiff.reports.distributions import distribution_lines

    if format_ not in ("text", "json"):
        raise UsageError(f"--as distribution prints text or json, not {format_}")
    found = compare_distributions(reference, candidate, options)
    text = to_json(found.to_plain(), indent=1) if format_ == "json" else "\n".join(distribution_lines(found))
    if output is None:
        sys.stdout.write(text + "\n")
    else:
        write_report(output, iter((text + "\n",)))
    if found.verdict != "match":
        raise typer.Exit(MISMATCH)
