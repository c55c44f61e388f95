"""`firstdiff demo`: something to look at before one's own model is at hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the two traces are written.")] = Path("demo"),
) -> None:
    """Compare two runs of a small model, one with a planted bug."""
    from firstdiff.cli.console import say
    from firstdiff.comparing import compare
    from firstdiff.reports.text import render
    from firstdiff.workflows.sample import write_sample

    reference, candidate = write_sample(output)
    say(f"firstdiff compare {reference} {candidate}", "bold")
    for piece in render(compare(reference, candidate)):
        sys.stdout.write(piece)
