"""`firstdiff explain`: why this pair, this layout, this verdict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from firstdiff.cli.options import Align, Candidate, LayerOffset, MapFile, Reference

if TYPE_CHECKING:
    from firstdiff.schema import Isolated, Pair


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
    pair = explain_pair(reference, candidate, name, options)
    if format_ == "json":
        say(to_json(pair, indent=1))
        return
    for line in _sentences(pair):
        say(shown(line))


def _sentences(pair: Pair) -> Iterator[str]:
    from firstdiff.reports.sentences import shape_and_type, title

    yield f"{title(pair)}: {pair.status}, {shape_and_type(pair)}"
    if pair.pairing is not None:
        yield "Pair"
        yield f"  found by {pair.pairing.method}, confidence {pair.pairing.confidence:.2g}"
        if pair.pairing.alternatives:
            yield f"  could be {', '.join(pair.pairing.alternatives)}"
    if pair.alignment is not None:
        yield "Layout"
        yield f"  {pair.alignment.recipe}" + (" (both sides are alike)" if pair.alignment.is_identity else "")
        if pair.alignment.steps:
            yield f"  steps: {', '.join(pair.alignment.steps)}"
        yield f"  confidence {pair.alignment.confidence:.2g}, {pair.alignment.coverage:.3g} of the tensor compared"
        yield from (f"  fits as well: {other}" for other in pair.alignment.alternatives)
    yield "Verdict"
    yield from (f"  {line}" for line in _verdict(pair))


def _verdict(pair: Pair) -> Iterator[str]:
    """Say what the verdict rests on: the values, a control, the operation computed again, a cause."""
    from firstdiff.reports.sentences import explain, row_origin

    yield from _matching(pair) if pair.status == "match" and pair.metrics is not None else explain(pair)
    if pair.controlled is not None and pair.controlled.text:
        yield pair.controlled.text
    if (origin := row_origin(pair)) is not None:
        yield f"Origin: {origin}"
    if pair.isolated is not None:
        yield _alone(pair.isolated)
    for cause in pair.diagnosis:
        yield f"{cause.cause}: {cause.evidence}; {cause.fix}"


def _matching(pair: Pair) -> Iterator[str]:
    from firstdiff.reports.sentences import allowed, number

    if pair.tolerance is not None and (pair.tolerance.rule != "default" or pair.systematic is None):
        yield f"allowed: {allowed(pair.tolerance)}"
    if pair.metrics is not None and pair.metrics.max_abs is not None:
        yield f"greatest difference: {number(pair.metrics.max_abs)} in {pair.metrics.elements:,} elements"
    if pair.systematic is not None and pair.systematic.note:
        yield pair.systematic.note


def _alone(isolated: Isolated) -> str:
    """Say what computing the operation again from the candidate's own inputs showed."""
    if isolated.status == "match":
        return "computed again from the candidate's own inputs, it is what they give"
    return isolated.reason or f"computed again from the candidate's own inputs: {isolated.status}"
