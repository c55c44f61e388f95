"""`firstdiff capture`: record a model that a function can build."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

app = typer.Typer(help="Record what a model computes.", no_args_is_help=True)


@app.callback()
def _capture() -> None:
    """Record what a model computes."""


@app.command("torch")
def torch_(
    factory: Annotated[
        str, typer.Argument(metavar="MODULE:FACTORY", help="A function that gives a model, or a model and its inputs.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="TRACE", help="The folder to write.")],
    inputs: Annotated[
        Path | None,
        typer.Option("--input", metavar="X.npz", help="Arrays named as the model's arguments, or arg0, arg1, …"),
    ] = None,
    level: Annotated[Literal["module", "function", "op"], typer.Option(help="How closely to look.")] = "function",
    params: Annotated[
        Literal["auto", "small", "all", "none"],
        typer.Option(help="Which parameters to record: small are those up to 64 KiB, auto all up to 256 MiB in total."),
    ] = "auto",
    include: Annotated[
        list[str] | None, typer.Option(metavar="GLOB", help="Only these names; may be repeated.")
    ] = None,
    exclude: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Not these names; may be repeated.")] = None,
    tokens: Annotated[str | None, typer.Option(metavar="0:8", help="Only this part of the sequence.")] = None,
    dtype: Annotated[str | None, typer.Option(help="Store floating-point tensors as this type.")] = None,
    max_bytes: Annotated[int | None, typer.Option(help="Leave out tensors larger than this.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed torch with this before the model is built.")] = None,
    train: Annotated[
        bool, typer.Option("--train", help="Leave the model as built; otherwise it is put in eval.")
    ] = False,
    floor: Annotated[bool, typer.Option("--floor", help="Also measure each tensor's noise floor.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a trace that is there.")] = False,
) -> None:
    """Build a torch model, call it once without gradients, and record the call."""
    from firstdiff.capturing import capture
    from firstdiff.capturing.factory import build, called_without_gradients

    model, args, kwargs = build(factory, inputs, seed=seed, train=train)
    recording = capture(
        model,
        output,
        level=level,
        params=params,
        include=include or (),
        exclude=exclude or (),
        tokens=tokens,
        dtype=dtype,
        max_bytes=max_bytes,
        seed=seed,
        floor=floor,
        overwrite=overwrite,
    )
    with recording:
        called_without_gradients(model, args, kwargs)
    typer.echo(f"{recording.path}: {recording.tensors} tensors")
