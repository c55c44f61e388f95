"""`python -m firstdiff.testing.zoo`: run the zoo, print tables and totals, save JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firstdiff.errors import FirstdiffError

if TYPE_CHECKING:
    from firstdiff.testing.zoo.planting import Variant

_WIDTH = 120  # columns of output that goes into a file
_SAVED = Path("build/zoo.json")


def main(
    only: Annotated[
        list[str] | None, typer.Option(help="A fault, an architecture or a kind of healthy pair; may be repeated.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="At most so many cases, and as many healthy pairs.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Another one puts the faults into other layers.", min=0)] = 0,
    full: Annotated[bool, typer.Option("--full", help="Only full candidates.")] = False,
    stripped: Annotated[
        bool, typer.Option("--stripped", help="Only candidates without attributes and weights.")
    ] = False,
    healthy: Annotated[bool, typer.Option("--healthy", help="Only healthy pairs.")] = False,
    faults: Annotated[bool, typer.Option("--faults", help="Only faults.")] = False,
    held_out: Annotated[bool, typer.Option("--held-out", help="The faults kept apart, in models kept apart.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Processes at once.", min=1)] = 1,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the JSON goes.")] = _SAVED,
) -> None:
    """Plant faults in tiny models, compare, and count how many were found and named.

    Ends with 1 if anything that is asked for was missed.
    """
    from rich.console import Console

    from firstdiff.testing.zoo import need_torch_and_transformers

    console = Console(width=None if Console().is_terminal else _WIDTH)
    chosen_variants: list[tuple[Variant, bool]] = [("full", full), ("stripped", stripped)]
    variants = tuple(name for name, wanted in chosen_variants if wanted or full == stripped)
    try:
        need_torch_and_transformers()
        from firstdiff.testing.zoo.runner import run_all, selected
        from firstdiff.testing.zoo.scoring import targets
        from firstdiff.testing.zoo.tables import save, show

        chosen, pairs = selected(only or (), seed, held_out=held_out)
        chosen, pairs = [] if healthy else chosen[:limit], [] if faults else pairs[:limit]
        results = run_all(console, chosen, pairs, variants, jobs)
    except FirstdiffError as error:
        console.print(f"error: {error}", markup=False, highlight=False)
        raise typer.Exit(2) from error
    outcomes = [run.outcome for run in results.runs]
    reached = targets(outcomes, variants, [pair.quiet for pair in results.healthy])
    show(console, outcomes, results.healthy, variants, reached)
    for broken in results.broken:
        console.print(f"broken: {broken.task}: {broken.error}", markup=False, highlight=False)
    save(output, results.runs, results.healthy, reached)
    console.print(f"saved to {output}", markup=False, highlight=False)
    if not results.complete:
        console.print("interrupted: the figures are of what was run so far")
        raise typer.Exit(130)
    if results.broken or not all(target.met for target in reached):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
