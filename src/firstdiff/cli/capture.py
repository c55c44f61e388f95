"""`firstdiff capture`: record a model that a function can build, or that is in a file."""

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


@app.command("onnx")
def onnx_(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An .onnx file.")],
    inputs: Annotated[Path, typer.Option("--input", metavar="X.npz", help="Arrays named as the model's inputs.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="TRACE", help="The folder to write.")],
    params: Annotated[
        Literal["auto", "small", "all", "none"],
        typer.Option(help="Which weights to record: small are those up to 64 KiB, auto all up to 256 MiB in total."),
    ] = "auto",
    provider: Annotated[str, typer.Option(help="Where to run it: cpu, cuda, …")] = "cpu",
    optimize: Annotated[
        bool, typer.Option("--optimize", help="Let the runtime optimise while its values are recorded.")
    ] = False,
    include: Annotated[
        list[str] | None, typer.Option(metavar="GLOB", help="Only these names; may be repeated.")
    ] = None,
    exclude: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Not these names; may be repeated.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a trace that is there.")] = False,
) -> None:
    """Run an ONNX model once in onnxruntime and record every value it computes."""
    from firstdiff.capturing import capture_onnx
    from firstdiff.cli.console import progress_bar

    with progress_bar("running") as on_progress:
        captured = capture_onnx(
            model,
            inputs,
            output,
            params=params,
            provider=provider,
            optimize=optimize,
            include=include or (),
            exclude=exclude or (),
            overwrite=overwrite,
            on_progress=on_progress,
        )
    typer.echo(f"{captured.path}: {captured.tensors} tensors")
    for name, distance in captured.optimized.items():
        typer.echo(f"{name}: {distance:.2g} standard deviations from the plain optimised run")
    for sentence in captured.left_out:
        typer.echo(sentence)


@app.command("browser")
def browser_(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="An .onnx file.")],
    inputs: Annotated[Path, typer.Option("--input", metavar="X.npz", help="Arrays named as the model's inputs.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="TRACE", help="The folder to write.")],
    provider: Annotated[Literal["wasm", "webgpu"], typer.Option(help="Where onnxruntime-web computes.")] = "wasm",
    optimize: Annotated[
        bool, typer.Option("--optimize", help="Let the runtime optimise while its values are recorded.")
    ] = False,
    python: Annotated[
        Path | None, typer.Option(metavar="TRACE", help="Record Python's onnxruntime there first.")
    ] = None,
    browser: Annotated[Path | None, typer.Option(metavar="PROGRAM", help="The Chromium to start.")] = None,
    no_launch: Annotated[bool, typer.Option("--no-launch", help="Print an address to open in any browser.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long to wait for the browser.")] = 600.0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a trace that is there.")] = False,
) -> None:
    """Run an ONNX model once in a browser, in onnxruntime-web, and record every value it computes."""
    from firstdiff.capturing import capture_onnx
    from firstdiff.cli.console import progress_bar
    from firstdiff.server.inference.headless import capture_browser

    if python is not None:
        recorded = capture_onnx(model, inputs, python, overwrite=overwrite)
        typer.echo(f"{recorded.path}: {recorded.tensors} tensors from Python's onnxruntime")
    with progress_bar("running") as on_progress:
        captured = capture_browser(
            model,
            inputs,
            output,
            provider=provider,
            optimize=optimize,
            browser=browser,
            launch=not no_launch,
            overwrite=overwrite,
            timeout=timeout,
            say=typer.echo,
            on_progress=on_progress,
        )
    typer.echo(f"{captured.path}: {captured.tensors} tensors")
    for name, distance in captured.plain.items():
        typer.echo(f"{name}: {distance:.2g} standard deviations from the untouched run")
    for name, distance in captured.optimized.items():
        typer.echo(f"{name}: {distance:.2g} standard deviations from the untouched, optimised run")
    for sentence in captured.left_out:
        typer.echo(sentence)
