"""`firstdiff explain`: why this pair, this layout, this verdict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from firstdiff.cli.options import Align, Candidate, LayerOffset, MapFile, Reference

if TYPE_CHECKING:
    from firstdiff.pairing import Match
    from firstdiff.schema import Pair


def explain(
    reference: Reference,
    candidate: Candidate,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The key of a tensor on either side.")],
    map_file: MapFile = None,
    layer_offset: LayerOffset = None,
    align: Align = None,
    format_: Annotated[Literal["text", "json"], typer.Option("--format", help="How to print it.")] = "text",
) -> None:
    """Tell why a tensor was paired as it was, how its layouts relate, and what its verdict rests on."""
    from firstdiff.cli.console import say
    from firstdiff.comparing import Options, explain_pair
    from firstdiff.json_text import to_json
    from firstdiff.reports.terminal import shown

    options = Options.of(map=map_file, layer_offset=layer_offset, align=align or ())
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
        yield f"  {pair.alignment.recipe}" + (" (both sides are alike)" if pair.alignment.is_identity else "")
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
