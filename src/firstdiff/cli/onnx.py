"""`firstdiff onnx`: a torch model against its ONNX file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

MISMATCH = 1


def onnx(
    factory: Annotated[
        str, typer.Argument(metavar="MODULE:FACTORY", help="A function that gives a model, or a model and its inputs.")
    ],
    inputs: Annotated[
        Path | None,
        typer.Option("--input", metavar="X.npz", help="Arrays named as the model's arguments, or arg0, arg1, …"),
    ] = None,
    model: Annotated[
        Path | None, typer.Option("--onnx", metavar="MODEL", help="An exported file; exported now if left out.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="Keep both traces and the exported file here."),
    ] = None,
    opset: Annotated[int | None, typer.Option(help="The opset to export to; torch's choice if left out.")] = None,
    provider: Annotated[str, typer.Option(help="Where ONNX Runtime runs it: cpu, cuda, …")] = "cpu",
    optimize: Annotated[
        bool, typer.Option("--optimize", help="Let the runtime optimise while its values are recorded.")
    ] = False,
    effort: Annotated[
        str | None, typer.Option(metavar="SECONDS|full", help="CPU time for causes and fruitless layouts; 2 s.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed torch with this before the model is built.")] = None,
) -> None:
    """Export a torch model to ONNX, run both on the same inputs, and compare module by module.

    Exit code 0: they match; 1: they do not, or nothing was compared; 2: bad input.
    """
    from firstdiff.capturing.factory import build
    from firstdiff.cli.console import say
    from firstdiff.comparing.options import parse_effort
    from firstdiff.reports.text import render
    from firstdiff.workflows.onnx_compare import compare_onnx

    built = build(factory, inputs, seed=seed)
    found = compare_onnx(
        built.model,
        built.kwargs or built.args,
        model,
        folder=output,
        opset=opset,
        provider=provider,
        optimize=optimize,
        effort=parse_effort(effort),
        on_stage=_tell,
    )
    for piece in render(found.comparison):
        sys.stdout.write(piece)
    say()
    say(f"{found.paired} of {found.modules} outputs of torch modules have a value in the graph")
    if found.node is not None:
        say(f"first divergence in the graph: {'' if found.node.exact else 'at or before '}{found.node}")
    for name, far in found.optimized.items():
        say(f"{name}: {far:.2g} standard deviations from the plain optimised run")
    if found.verdict != "match":
        raise typer.Exit(MISMATCH)


def _tell(stage: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"{stage} …\n")
