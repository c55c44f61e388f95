"""`firstdiff diagnose`: what caused it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from firstdiff.cli.options import Align, Candidate, LayerOffset, MapFile, Reference

if TYPE_CHECKING:
    from firstdiff.schema import Comparison, Pair

MISMATCH = 1


def diagnose(
    reference: Reference,
    candidate: Candidate,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The key of one tensor, instead of all that went wrong first.")
    ] = None,
    atol: Annotated[float | None, typer.Option(help="Allow |c - r| <= atol + rtol * |r|.")] = None,
    rtol: Annotated[float | None, typer.Option(help="See --atol.")] = None,
    map_file: MapFile = None,
    layer_offset: LayerOffset = None,
    align: Align = None,
    format_: Annotated[Literal["text", "json"], typer.Option("--format", help="How to print it.")] = "text",
) -> None:
    """Say what caused the difference: every cause is tested on the numbers.

    Exit code 0: there is none; 1: there is.
    """
    from firstdiff.cli.console import comparison_progress, say, warn
    from firstdiff.comparing import Options, compare_traces, row_named
    from firstdiff.json_text import to_json
    from firstdiff.reports.terminal import shown

    options = Options.of(
        atol=atol, rtol=rtol, map=map_file, layer_offset=layer_offset, align=align or (), effort="full"
    )
    with comparison_progress() as on_progress:
        found = compare_traces(reference, candidate, options, on_progress, only=name)
    rows = _introduced(found) if name is None else [row_named(found.pairs, name)]
    for warning in found.warnings:
        warn(warning)
    if format_ == "json":
        say(to_json(_plain(found, rows), indent=1))
    else:
        for line in _sentences(found, rows):
            say(shown(line))
    if found.verdict != "match" if name is None else rows[0].status != "match":
        raise typer.Exit(MISMATCH)


def _introduced(found: Comparison) -> list[Pair]:
    """The first divergence, then every other place where an error was made."""
    first = [found.first_divergence] if found.first_divergence else []
    places = dict.fromkeys(site.pair for site in (*first, *found.divergences))
    return [found.pairs[place] for place in places]


def _plain(found: Comparison, rows: Sequence[Pair]) -> dict[str, Any]:
    return {
        "schema": "firstdiff/diagnosis/1",
        "verdict": found.verdict,
        "rows": [
            {
                **{"index": row.index, "key": row.key, "op": row.op, "status": row.status, "reason": row.reason},
                **{"origin": row.origin, "diagnosis": row.diagnosis},
            }
            for row in rows
        ],
        "notes": found.notes,
    }


def _sentences(found: Comparison, rows: Sequence[Pair]) -> Iterator[str]:
    from firstdiff.reports.sentences import causes_of, notes, shape_and_type, summary, title

    for row in rows:
        yield f"{title(row)}: {', '.join(filter(None, (row.status, row.op, shape_and_type(row), row.origin)))}"
        if row.status != "mismatch":
            yield f"  {row.reason or 'there is nothing to explain'}"
            continue
        yield from (f"  {line}" for line in causes_of(found, row))
    yield from notes(found)
    yield summary(found)
