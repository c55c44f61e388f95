"""`firstdiff calibrate`: noise floors from several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def calibrate(
    reference: Annotated[Path, typer.Argument(metavar="REF", help="The trace that gets noise floors.")],
    runs: Annotated[list[Path], typer.Argument(metavar="RUN2 [RUN3 …]", help="Healthy runs of the same model.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where the trace with floors goes; REF itself is changed in place.")
    ],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace another trace at that place.")] = False,
) -> None:
    """Store how far each tensor moves between runs that ought to agree, so that comparing can allow for it."""
    from firstdiff.cli.console import progress_bar, warn
    from firstdiff.workflows.calibrate import calibrate as measure

    with progress_bar("comparing") as progress:
        done = measure(reference, runs, output, overwrite=overwrite, progress=progress)
    for warning in done.warnings:
        warn(warning)
    typer.echo(
        f"{done.path}: {done.with_floor} of {done.tensors} tensors have a noise floor, from {len(runs) + 1} runs"
    )
