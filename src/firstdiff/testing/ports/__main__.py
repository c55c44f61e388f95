"""`python -m firstdiff.testing.ports`: compare every port with its reference, print tables, save JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firstdiff.errors import FirstdiffError, UsageError

if TYPE_CHECKING:
    from firstdiff.testing.ports.port import Half

_WIDTH = 180  # of what goes into a file
_HALVES: dict[str, tuple[Half, ...]] = {"open": ("open",), "locked": ("locked",), "both": ("open", "locked")}


def main(
    half: Annotated[
        str, typer.Option(help="open: what may be tuned on; locked: what is scored once, at the end; or both.")
    ] = "open",
    only: Annotated[list[str] | None, typer.Option(help="A family, a fault or a variation; may be repeated.")] = None,
    single: Annotated[
        bool,
        typer.Option("--single-cases", help="Every case of the locked half, too: whoever reads them tunes on them."),
    ] = False,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Processes at once.", min=1)] = 1,
    json: Annotated[Path | None, typer.Option("--json", help="Save every outcome here, too.")] = None,
) -> None:
    """Compare models with ports of them, healthy and faulty, and count what was found.

    Ends with 1 if anything that is asked for was missed.
    """
    from rich.console import Console

    from firstdiff.testing.zoo import need_torch_and_transformers

    console = Console(width=None if Console().is_terminal else _WIDTH)
    try:
        if half not in _HALVES:
            raise UsageError(f"--half is {half!r}; it is one of {', '.join(_HALVES)}")
        need_torch_and_transformers()
        from firstdiff.testing.pool import run_tasks
        from firstdiff.testing.ports.running import run
        from firstdiff.testing.ports.scoring import gates
        from firstdiff.testing.ports.table import cases
        from firstdiff.testing.ports.tables import save, show

        chosen = cases(_HALVES[half], only or ())
        if not chosen:
            raise UsageError(f"the {half} half has none of {', '.join(only or ())}; --half says which is run")
        finished = run_tasks(console, chosen, run, jobs, group=lambda case: case.family)
    except FirstdiffError as error:
        console.print(f"error: {error}", markup=False, highlight=False)
        raise typer.Exit(2) from error
    halves = {
        name: found
        for name in _HALVES[half]
        if (found := [outcome for outcome in finished.results if outcome.case.half == name])
    }
    for name, outcomes in halves.items():
        show(console, outcomes, name, single_cases=single or name == "open")
    for broken in finished.broken:
        console.print(f"broken: {broken.task}: {broken.error}", markup=False, highlight=False)
    if json is not None:
        save(json, halves)
    if not finished.complete:
        console.print("interrupted: the figures are of what was run so far")
        raise typer.Exit(130)
    if finished.broken or any(gate.met is False for outcomes in halves.values() for gate in gates(outcomes)):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
