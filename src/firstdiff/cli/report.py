"""`firstdiff report`: a bug report as one archive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from firstdiff.cli.options import Candidate, LayerOffset, MapFile, Reference


def report(
    reference: Reference,
    candidate: Candidate,
    bundle: Annotated[Path, typer.Option("--bundle", metavar="FILE.zip", help="The archive to write.")],
    log: Annotated[list[Path] | None, typer.Option(metavar="FILE", help="A log to add; may be given again.")] = None,
    atol: Annotated[float | None, typer.Option(help="As for compare.")] = None,
    rtol: Annotated[float | None, typer.Option(help="As for compare.")] = None,
    map_file: MapFile = None,
    layer_offset: LayerOffset = None,
) -> None:
    """Compare two runs and pack what a maintainer asks for: comparison, summaries, versions, logs, the failing node."""
    from firstdiff.cli.console import say
    from firstdiff.comparing import Options, compare_traces
    from firstdiff.errors import UsageError
    from firstdiff.readers import open_trace
    from firstdiff.reports.bundle import write_bundle
    from firstdiff.reports.terminal import shown

    if bundle.is_dir():
        raise UsageError(f"--bundle {bundle} is a folder; give the name of a file, such as bug.zip")
    options = Options.of(atol=atol, rtol=rtol, map=map_file, layer_offset=layer_offset)
    sides = open_trace(reference), open_trace(candidate)
    comparison = compare_traces(*sides, options)
    files = write_bundle(bundle, comparison, *sides, logs=log or ())
    say(f"wrote {shown(str(bundle))}, {bundle.stat().st_size:,} bytes: {', '.join(map(shown, files))}")
