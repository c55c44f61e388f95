"""`firstdiff compare`: two runs, tensor by tensor."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

MISMATCH = 1


def compare(
    reference: Annotated[Path, typer.Argument(metavar="REF", help="The run that is right.")],
    candidate: Annotated[Path, typer.Argument(metavar="CAND", help="The run to check.")],
    atol: Annotated[float | None, typer.Option(help="Allow |c - r| <= atol + rtol * |r| for every tensor.")] = None,
    rtol: Annotated[float | None, typer.Option(help="See --atol; one alone leaves the other at 0.")] = None,
    tolerances: Annotated[
        str | None, typer.Option(metavar="FILE|torch", help="A TOML file with [[tolerances]], or torch's table.")
    ] = None,
    equal_nan: Annotated[bool, typer.Option("--equal-nan", help="Let NaN match NaN at the same place.")] = False,
    allow_missing: Annotated[bool, typer.Option("--allow-missing", help="Tensors only REF has do not count.")] = False,
    allow_extra: Annotated[bool, typer.Option("--allow-extra", help="Tensors only CAND has do not count.")] = False,
    map_file: Annotated[Path | None, typer.Option("--map", metavar="F", help="Pairs that you state, as TOML.")] = None,
    layer_offset: Annotated[int, typer.Option(metavar="N", help="Added to the layers of CAND: its 0 is your N.")] = 0,
    layout: Annotated[Literal["auto", "strict"], typer.Option(help="strict: only the same layout matches.")] = "auto",
    accept_layout: Annotated[
        list[str] | None, typer.Option(metavar="transpose,…", help="Layouts that may match all the same.")
    ] = None,
    align: Annotated[
        list[str] | None, typer.Option(metavar="'name=b s h d -> s (b h) d'", help="The recipe of one pair.")
    ] = None,
    isolate: Annotated[
        bool, typer.Option("--isolate", help="Also judge every operation on the candidate's own inputs.")
    ] = False,
    sort: Annotated[Literal["order", "worst"], typer.Option(help="By execution, or the worst first.")] = "order",
    every_row: Annotated[bool, typer.Option("--all", help="Show every row of a long comparison.")] = False,
    order: Annotated[
        str | None, typer.Option(metavar="numbered|layer_stage|natural", help="How names of plain files order them.")
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", metavar="text|json|jsonl|junit|md|html", help="The form of the report.")
    ] = "text",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the report to a file.")] = None,
    engine: Annotated[
        Literal["auto", "numpy", "numba"], typer.Option(help="numba is faster on many gigabytes.")
    ] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="How many threads; all cores if left out.")] = None,
) -> None:
    """Compare two runs. Exit code 0: they match; 1: they do not, or nothing was compared; 2: bad input."""
    from firstdiff.cli.console import progress_bar, write_report
    from firstdiff.cli.order import stated_order
    from firstdiff.comparing import compare as compare_runs
    from firstdiff.reports import report_named
    from firstdiff.reports.text import render

    rule = stated_order(order)
    report = None if format_ == "html" else report_named(format_)
    with progress_bar("comparing", unit_bytes=True) as progress:
        comparison = compare_runs(
            reference,
            candidate,
            atol=atol,
            rtol=rtol,
            tolerances=tolerances,
            equal_nan=equal_nan,
            allow_missing=allow_missing,
            allow_extra=allow_extra,
            map=map_file,
            layer_offset=layer_offset,
            layout=layout,
            accept_layout=accept_layout or (),
            align=align or (),
            isolate=isolate,
            order=rule,
            engine=engine,
            threads=threads,
            progress=progress,
        )
    if report is None:
        from firstdiff.server.sharing.standalone import page_of

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
    if comparison.verdict != "match":
        raise typer.Exit(MISMATCH)
