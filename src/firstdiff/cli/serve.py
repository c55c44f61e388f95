"""`firstdiff serve`: the page, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from firstdiff.server.context import Context

PORT = typer.Option(metavar="N", min=0, max=65535, help="The next free one is taken if this is not.")
HOST = typer.Option(metavar="ADDRESS", help="Let other machines in, too; then a token is needed.")
TOKEN = typer.Option(metavar="WORD", help="What others must state; made up with --host if left out.")
THIRD = typer.Option(metavar="PATH", help="A third run, to look at beside the two.")
ORIGIN = typer.Option(metavar="ORIGIN", help="A page that may send traces, such as http://localhost:3000.")
HOME = typer.Option(metavar="DIR", help="Where comparisons are kept.")
NO_OPEN = typer.Option("--no-open", help="Do not open the browser.")


def serve(
    reference: Annotated[Path | None, typer.Argument(metavar="[REF", help="The run that is right.")] = None,
    candidate: Annotated[Path | None, typer.Argument(metavar="[CAND]]", help="The run to check.")] = None,
    third: Annotated[Path | None, THIRD] = None,
    port: Annotated[int, PORT] = 8585,
    host: Annotated[str, HOST] = "127.0.0.1",
    token: Annotated[str | None, TOKEN] = None,
    allow_origin: Annotated[list[str] | None, ORIGIN] = None,
    home: Annotated[Path | None, HOME] = None,
    no_open: Annotated[bool, NO_OPEN] = False,
) -> None:
    """Show comparisons in the browser: of two runs, of one alone, or those there are."""
    from firstdiff.server.submit import given_path, start_paths

    if third is not None and candidate is None:
        raise typer.BadParameter("--third goes with two others: firstdiff serve REF CAND --third PATH")
    given = {"reference": reference, "candidate": candidate, "third": third}
    paths = {name: None if path is None else str(path) for name, path in given.items()}
    for name, path in paths.items():
        if path is not None:
            given_path(path, name)

    def begin(context: Context) -> str | None:
        first = paths["reference"]
        return None if first is None else start_paths(context, first, paths["candidate"], paths["third"])

    run(begin, port=port, host=host, token=token, allow_origin=allow_origin or [], home=home, no_open=no_open)


def run(
    begin: Callable[[Context], str | None],
    *,
    port: int,
    host: str = "127.0.0.1",
    token: str | None = None,
    allow_origin: list[str] | None = None,
    home: Path | None = None,
    no_open: bool = False,
) -> None:
    """Serve until Ctrl-C, which is the usual end and no failure."""
    import sys

    from firstdiff.cli.console import say
    from firstdiff.server.serve import Serving
    from firstdiff.server.serve import serve as serve_page
    from firstdiff.store import default_home
    from firstdiff.workflows.project import find_project

    def tell(line: str) -> None:
        say(line)
        sys.stdout.flush()

    serving = Serving(
        home=(home or default_home()).expanduser().absolute(),
        host=host,
        port=port,
        token=token,
        origins=tuple(origin.rstrip("/") for origin in allow_origin or ()),
        open_browser=not no_open,
        project=find_project(),
    )
    try:
        serve_page(serving, begin, tell)
    except KeyboardInterrupt:
        say("stopped")
