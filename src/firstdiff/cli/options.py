"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from firstdiff.trace.order import OrderRule

Reference = Annotated[Path, typer.Argument(metavar="REF", help="The run that is right.")]
Candidate = Annotated[Path, typer.Argument(metavar="CAND", help="The run to check.")]
MapFile = Annotated[Path | None, typer.Option("--map", metavar="F", help="Pairs that you state, as TOML.")]
LayerOffset = Annotated[
    int | None,
    typer.Option(metavar="N", help="Added to the layers of CAND: its 0 is your N. Found in the values if left out."),
]
Align = Annotated[list[str] | None, typer.Option(metavar="'name=b s h d -> s (b h) d'", help="The recipe of one pair.")]


def stated_order(text: str | None) -> OrderRule | None:
    """Return the ordering rule a user named; UsageError lists those there are."""
    from firstdiff.errors import UsageError
    from firstdiff.trace.order import ORDER_RULES

    if text is None:
        return None
    for rule in ORDER_RULES:
        if rule == text:
            return rule
    raise UsageError(f"--order is {text!r}; it takes one of {', '.join(ORDER_RULES)}")
