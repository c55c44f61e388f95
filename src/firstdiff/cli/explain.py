"""`firstdiff explain`: why this pair, this layout, this verdict."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from firstdiff.pairing import Match
    from firstdiff.schema import Pair


def explain(
    reference: Annotated[Path, typer.Argument(metavar="REF", help="The run that is right.")],
    candidate: Annotated[Path, typer.Argument(metavar="CAND", help="The run to check.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="The key of a tensor on either side.")],
    map_file: Annotated[Path | None, typer.Option("--map", metavar="F", help="Pairs that you state, as TOML.")] = None,
    layer_offset: Annotated[int, typer.Option(metavar="N", help="Added to the layers of CAND: its 0 is your N.")] = 0,
    align: Annotated[
        list[str] | None, typer.Option(metavar="'name=b s h d -> s (b h) d'", help="The recipe of one pair.")
    ] = None,
    format_: Annotated[Literal["text", "json"], typer.Option("--format", help="How to print it.")] = "text",
) -> None:
    """Tell why a tensor was paired as it was, how its layouts relate, and what its verdict rests on."""
    from firstdiff.cli.console import say
    from firstdiff.comparing import Options, explain_pair
    from firstdiff.comparing.layout_options import LayoutOptions
    from firstdiff.json_text import to_json
    from firstdiff.pairing import PairingOptions, load_map
    from firstdiff.reports.terminal import shown

    options = Options(
        pairing=PairingOptions(layer_offset=layer_offset, map=None if map_file is None else load_map(map_file)),
        layout=LayoutOptions.of("auto", (), align or ()),
    )
    _, match, pair = explain_pair(reference, candidate, name, options)
    if format_ == "json":
        say(to_json(pair, indent=1))
        return
    for line in _sentences(match, pair):
        say(shown(line))


def _sentences(match: Match | None, pair: Pair) -> Iterator[str]:
    from firstdiff.reports.sentences import allowed, number, shape_and_type, title
    from firstdiff.reports.sentences import explain as findings

    yield f"{title(pair)}: {pair.status}, {shape_and_type(pair)}"
    if match is not None:
        yield "Pair"
        yield f"  found by {match.pairing.method}, confidence {match.pairing.confidence:.2g}"
        if match.pairing.alternatives:
            yield f"  could be {', '.join(match.pairing.alternatives)}"
        if match.doubt:
            yield f"  {match.doubt}"
    if pair.alignment is not None:
        yield "Layout"
        yield f"  {pair.alignment.recipe}" + (" (both sides are alike)" if pair.alignment.recipe == "identity" else "")
        if pair.alignment.steps:
            yield f"  steps: {', '.join(pair.alignment.steps)}"
        yield f"  confidence {pair.alignment.confidence:.2g}, {pair.alignment.coverage:.3g} of the tensor compared"
        yield from (f"  fits as well: {other}" for other in pair.alignment.alternatives)
    yield "Verdict"
    if pair.status == "match" and pair.tolerance is not None and pair.metrics is not None:
        yield f"  allowed: {allowed(pair.tolerance)}"
        if pair.metrics.max_abs is not None:
            yield f"  greatest difference: {number(pair.metrics.max_abs)} in {pair.metrics.elements:,} elements"
    else:
        yield from (f"  {line}" for line in findings(pair))
    for cause in pair.diagnosis:
        yield f"  {cause.cause}: {cause.evidence}; {cause.fix}"
