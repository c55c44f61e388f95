"""`python -m firstdiff.testing.corpus`: measure the corpus, print limits, false alarms and detection rates."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from firstdiff.errors import FirstdiffError, UsageError

_CACHE = Path("build/corpus")


def main(
    only: Annotated[list[str] | None, typer.Option(help="A model, or a part of its name; may be repeated.")] = None,
    variation: Annotated[list[str] | None, typer.Option(help="A kind of healthy pair; may be repeated.")] = None,
    cache: Annotated[Path, typer.Option(help="Where the figures of each tensor are kept.")] = _CACHE,
    docs: Annotated[Path | None, typer.Option(help="A page with markers to write the tables between.")] = None,
    measured_only: Annotated[bool, typer.Option("--measured", help="Only what the cache has already.")] = False,
    inside: Annotated[bool, typer.Option("--inside", help="Only faults inside the operations of MiniLM.")] = False,
) -> None:
    """Choose the limits of the default verdict on one half of the corpus and score them on the other."""
    from firstdiff.testing.zoo import need_torch_and_transformers

    try:
        need_torch_and_transformers()
        if inside:
            typer.echo(_placed())
            return
        text = _calibrated(only or [], variation or [], cache, measured_only)
        typer.echo(text)
        if docs is not None:
            from firstdiff.testing.corpus.tables import write_docs

            write_docs(docs, text)
    except FirstdiffError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error


def _placed() -> str:
    import torch

    from firstdiff.testing.corpus.inside import INNER_FAULTS, place, placed_table
    from firstdiff.testing.corpus.trained import minilm

    built = minilm(1)
    types = (torch.float32, torch.bfloat16)
    return placed_table([place(built, fault, dtype) for dtype in types for fault in INNER_FAULTS])


def _calibrated(only: list[str], variations: list[str], cache: Path, measured_only: bool) -> str:
    from firstdiff.testing.corpus.measuring import measured
    from firstdiff.testing.corpus.models import MODELS
    from firstdiff.testing.corpus.tables import calibration
    from firstdiff.testing.corpus.variations import VARIATIONS

    unknown = [name for name in variations if name not in VARIATIONS]
    chosen = [model for model in MODELS.values() if not only or any(part in model.name for part in only)]
    if unknown or not chosen:
        raise UsageError(
            f"nothing is called {', '.join(unknown or only)}; models are {', '.join(MODELS)}; "
            f"variations are {', '.join(VARIATIONS)}"
        )
    found = []
    for model in chosen:
        begun = time.perf_counter()
        tensors = list(measured(model, variations or VARIATIONS, cache, measured_only=measured_only))
        typer.echo(f"{model.name}: {len(tensors):,} tensors, {time.perf_counter() - begun:.0f} s", err=True)
        found += tensors
    return calibration(found)


if __name__ == "__main__":
    typer.run(main)
