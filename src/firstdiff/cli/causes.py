"""`firstdiff causes`: what each cause means, how it shows and what to do."""

from __future__ import annotations

from typing import Annotated, Literal

import typer


def causes(
    code: Annotated[str | None, typer.Argument(metavar="CODE", help="One cause, such as norm.eps.")] = None,
    format_: Annotated[Literal["text", "json"], typer.Option("--format", help="How to print it.")] = "text",
) -> None:
    """List the causes that are tested, or explain one."""
    from firstdiff.cli.console import say
    from firstdiff.diagnose.causes import page_of, pages
    from firstdiff.json_text import to_json
    from firstdiff.reports.terminal import columns

    if code is not None:
        page = page_of(code)
        if format_ == "json":
            say(to_json(page, indent=1))
            return
        say(page.code, "bold")
        for text in page.texts:
            say(f"\n{text}")
        return
    every = pages()
    if format_ == "json":
        say(to_json({"causes": every}, indent=1))
        return
    for line in columns([(page.code, page.title) for page in every]):
        say(line)
