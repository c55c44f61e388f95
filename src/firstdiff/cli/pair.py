"""`firstdiff pair`: which tensor is which, how that was found, and what is left over."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from firstdiff.cli.options import LayerOffset, MapFile

if TYPE_CHECKING:
    from firstdiff.pairing import Match, PairingResult, Unpaired
    from firstdiff.trace import Trace

NOTHING_PAIRED = 1


def pair(
    reference: Annotated[Path, typer.Argument(metavar="REF", help="The trace that is right.")],
    candidate: Annotated[Path, typer.Argument(metavar="CAND", help="The trace to hold against it.")],
    map_file: MapFile = None,
    write_map: Annotated[
        Path | None, typer.Option("--write-map", metavar="F", help="Write what was found as such a map, to be edited.")
    ] = None,
    layer_offset: LayerOffset = None,
    format_: Annotated[Literal["text", "json"], typer.Option("--format", help="How to print it.")] = "text",
) -> None:
    """Show which tensor of one trace is which of the other, how sure that is, and what has no partner."""
    from firstdiff.cli.console import progress_bar, warn
    from firstdiff.pairing import PairingOptions, doubt, load_map, pair_up
    from firstdiff.readers import open_trace

    if write_map is not None:
        _check_free(write_map)
    options = PairingOptions(layer_offset=layer_offset, map=None if map_file is None else load_map(map_file))
    with progress_bar("opening") as progress:
        ref, cand = (open_trace(path, progress=progress) for path in (reference, candidate))
    result = doubt(pair_up(ref, cand, options))
    for warning in (*ref.warnings, *cand.warnings, *result.warnings):
        warn(warning)
    if write_map is not None:
        _write(write_map, result)
    if format_ == "json":
        _print_json(result)
    else:
        _print_text(result)
    if not result.pairs:
        raise typer.Exit(NOTHING_PAIRED)


def _check_free(path: Path) -> None:
    from firstdiff.errors import UsageError

    if path.exists():
        raise UsageError(f"{path} exists already; a map that was edited is not written over: choose another name")


def _write(path: Path, result: PairingResult) -> None:
    from firstdiff.errors import WriteError
    from firstdiff.pairing import write_map

    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(write_map(result))
    except OSError as error:
        raise WriteError(f"cannot write the map {path} ({error.strerror or error})") from error


def _print_text(result: PairingResult) -> None:
    from firstdiff.cli.console import say
    from firstdiff.reports.terminal import columns, paint

    say(
        f"{len(result.pairs):,} paired, {len(result.missing):,} only in the reference, "
        f"{len(result.extra):,} only in the candidate",
        "bold",
    )
    rows = [("reference", "candidate", "method", "sure", "or"), *(_text_row(match, result) for match in result.pairs)]
    styles = ["bold", *("yellow" if match.doubt else None for match in result.pairs)]
    for line, style in zip(columns(rows, right=frozenset({3})), styles, strict=True):
        say(paint(line, style) if style else line)
    _print_unpaired("only in the reference", result.missing, result.reference)
    _print_unpaired("only in the candidate", result.extra, result.candidate)


def _text_row(match: Match, result: PairingResult) -> tuple[str, ...]:
    from firstdiff.reports.terminal import shown

    ref, cand = _keys(result.reference, match.reference), _keys(result.candidate, match.candidate)
    pairing = match.pairing
    texts = (", ".join(map(shown, keys)) for keys in (ref, cand, pairing.alternatives))
    reference, candidate, others = texts
    return reference, candidate, pairing.method, f"{pairing.confidence:.2f}", others


def _print_unpaired(title: str, tensors: tuple[Unpaired, ...], trace: Trace) -> None:
    from firstdiff.cli.console import say
    from firstdiff.reports.terminal import shown

    if tensors:
        say()
        say(title, "bold")
    for tensor in tensors:
        say(f"  {shown(_unpaired_text(tensor, trace))}")


def _unpaired_text(tensor: Unpaired, trace: Trace) -> str:
    key = str(trace.tensors[tensor.index].key)
    if tensor.guess is None:
        return key
    return f"{key}  (perhaps {tensor.guess.key}: {tensor.guess.why}, {tensor.guess.confidence:.2f})"


def _print_json(result: PairingResult) -> None:
    from firstdiff.json_text import to_json

    typer.echo(
        to_json(
            {
                "schema": "firstdiff/pairing/1",
                "reference": {"path": result.reference.path, "tensors": len(result.reference)},
                "candidate": {"path": result.candidate.path, "tensors": len(result.candidate)},
                "warnings": result.warnings,
                "pairs": [_pair_row(match, result) for match in result.pairs],
                "missing": [_unpaired_row(tensor, result.reference) for tensor in result.missing],
                "extra": [_unpaired_row(tensor, result.candidate) for tensor in result.extra],
            },
            indent=1,
        )
    )


def _pair_row(match: Match, result: PairingResult) -> dict[str, Any]:
    return {
        "reference": _keys(result.reference, match.reference),
        "candidate": _keys(result.candidate, match.candidate),
        "pairing": match.pairing,
        "recipe": match.recipe,
        "doubt": match.doubt,
    }


def _unpaired_row(tensor: Unpaired, trace: Trace) -> dict[str, Any]:
    return {"key": str(trace.tensors[tensor.index].key), "guess": tensor.guess}


def _keys(trace: Trace, places: tuple[int, ...]) -> list[str]:
    return [str(trace.tensors[place].key) for place in places]
