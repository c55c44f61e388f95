"""`firstdiff demo`: something to look at before one's own model is at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firstdiff.cli.serve import HOME, NO_OPEN, PORT


def demo(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="gpt: a wrong eps; diffusion: a sampler that writes garbage.")
    ] = "gpt",
    text: Annotated[bool, typer.Option("--text", help="Print the comparison here instead.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Unpack the two traces there; implies --text.")
    ] = None,
    port: Annotated[int, PORT] = 8585,
    home: Annotated[Path | None, HOME] = None,
    no_open: Annotated[bool, NO_OPEN] = False,
) -> None:
    """Show two runs of a small model, one with a planted bug, in the browser."""
    if text or output is not None:
        _print(name, output)
        return
    from functools import partial

    from firstdiff.cli.serve import run
    from firstdiff.server.submit import start_demo
    from firstdiff.workflows.demo import find_demo

    run(partial(start_demo, demo=find_demo(name)), port=port, home=home, no_open=no_open)


def _print(name: str, output: Path | None) -> None:
    import sys

    from firstdiff.cli.console import say
    from firstdiff.comparing import compare
    from firstdiff.reports.text import render
    from firstdiff.workflows.demo import find_demo, unpack_demo

    reference, candidate = find_demo(name).traces if output is None else unpack_demo(output, name)
    say(f"firstdiff compare {reference} {candidate}", "bold")
    for piece in render(compare(reference, candidate)):
        sys.stdout.write(piece)
