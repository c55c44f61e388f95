"""`firstdiff vocab`: two vocabularies, id by id."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

MISMATCH = 1


def vocab(
    reference: Annotated[Path, typer.Argument(metavar="A", help="The vocabulary that is right: a file, or a folder.")],
    candidate: Annotated[Path, typer.Argument(metavar="B", help="The vocabulary to check.")],
    format_: Annotated[Literal["text", "json"], typer.Option("--format", help="How to print it.")] = "text",
) -> None:
    """Compare vocabularies: ids, tokens, merges.

    Exit code 0: they are the same; 1: they are not; 2: bad input.
    """
    from firstdiff.cli.console import say
    from firstdiff.errors import UsageError
    from firstdiff.json_text import to_json
    from firstdiff.reports.terminal import shown
    from firstdiff.vocab import compare_vocabularies, load_vocabulary

    sides = load_vocabulary(reference), load_vocabulary(candidate)
    if any(side.form == "merges" for side in sides) and sides[0].form != sides[1].form:
        raise UsageError("one side is a list of merges, the other a vocabulary; give two of a kind, or two folders")
    found = compare_vocabularies(*sides)
    if format_ == "json":
        say(to_json(found.to_plain(), indent=1))
    else:
        for line in found.lines():
            say(shown(line), "bold red" if line.startswith("MISMATCH") else None)
    if found.verdict != "match":
        raise typer.Exit(MISMATCH)
