"""`firstdiff init`: write a commented firstdiff.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def init(
    folder: Annotated[Path, typer.Argument(help="Where to write it.")] = Path(),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace one that is there.")] = False,
) -> None:
    """Write a commented firstdiff.toml with the commands, inputs, weights and golden data that the folder shows."""
    from firstdiff.cli.console import say
    from firstdiff.errors import UsageError
    from firstdiff.reports.terminal import shown
    from firstdiff.workflows.project_template import write_project

    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    path, found = write_project(folder, overwrite=overwrite)
    say(f"wrote {shown(str(path))}")
    for side, command in (("reference", found.reference), ("candidate", found.candidate)):
        say(f"  {side}: {shown(command)}" if command else f"  {side}: not found; fill in command under [{side}]")
    say(f"  inputs: {shown(', '.join(inputs.name for inputs in found.inputs)) or 'none found'}")
    if found.files:
        say(f"  files: {shown(', '.join(name for _, name in found.files))}")
    fill_in = "" if found.reference and found.candidate else "fill in the commands, then "
    say(f"next: {fill_in}firstdiff golden, then firstdiff validate")
