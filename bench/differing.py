"""Runs that differ: at most twice the CPU time of the same run matching and 2 s, and twice its memory."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.commands import Cost, firstdiff, median_cost
from bench.row import Row, at_most

MEMBERS = 104
MEMBER = (890, 1000)  # float32: 3.56 MB, 104 of them are 370 MB
RATE = 22_050
SECONDS = 10
SLACK_S = 2.0


def run(folder: Path) -> list[Row]:
    """The rows of this part; files are made in `folder`."""
    parts: tuple[Callable[[Path], Iterator[Row]], ...] = (_dumps, _captures, _ports, _sounds)
    rows: list[Row] = []
    for part in parts:
        rows += part(folder)
        shutil.rmtree(folder)
        folder.mkdir()
    return rows


def _gate(title: str, matching: Cost, differing: Cost) -> Iterator[Row]:
    yield Row(f"{title}: matching", matching.cpu, "s")
    yield at_most(f"{title}: differing", differing.cpu, "s", round(2 * matching.cpu + SLACK_S, 2))
    yield at_most(f"{title}: memory differing", differing.peak_mb, "MB", round(2 * matching.peak_mb, 1))


def _cost(reference: Path, candidate: Path, *words: str, matches: bool = False) -> Cost:
    """Measure a comparison; a verdict that was not expected is an error, since it would be another thing to measure."""
    return median_cost(firstdiff("compare", reference, candidate, *words), times=3, expect=(0,) if matches else (1,))


def _dumps(folder: Path) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    for side in ("reference", "same", "other"):
        (folder / side).mkdir()
    for n in range(MEMBERS):
        values = rng.standard_normal(MEMBER).astype(np.float32)
        for side in ("reference", "same"):
            np.save(folder / side / f"{n:03}_out.npy", values)
        # from a quarter of the way on everything differs, as behind a wrong layer
        wrong = values if n < MEMBERS // 4 else values + 0.1 * rng.standard_normal(MEMBER).astype(np.float32)
        np.save(folder / "other" / f"{n:03}_out.npy", wrong)
    matching = _cost(folder / "reference", folder / "same", matches=True)
    yield from _gate("104 pairs of 370 MB", matching, _cost(folder / "reference", folder / "other"))


def _captures(folder: Path) -> Iterator[Row]:
    for layers in (24, 48):
        reference = _capture(folder / f"reference{layers}", layers)
        matching = _cost(reference, _capture(folder / f"same{layers}", layers), matches=True)
        for fault in ("eps", "rotary base", "skipped layer"):
            candidate = _capture(folder / f"{fault}{layers}", layers, fault)
            yield from _gate(f"{layers} layers with functions, {fault}", matching, _cost(reference, candidate))


def _capture(path: Path, layers: int, fault: str | None = None) -> Path:
    import torch
    from transformers import Qwen2Config, Qwen2Model

    import firstdiff as fd

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=99,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        attn_implementation="eager",
    )
    model: Any = Qwen2Model(config).eval()
    if fault == "eps":
        model.layers[3].input_layernorm.variance_epsilon = 1e-2
    elif fault == "rotary base":
        model.rotary_emb.inv_freq = 500.0 ** -(torch.arange(0, 12, 2) / 12)
    elif fault == "skipped layer":
        del model.layers[5]
    with torch.no_grad(), fd.capture(model, path):
        model(input_ids=torch.arange(28).reshape(2, 14), use_cache=False)
    return path


def _ports(folder: Path) -> Iterator[Row]:
    """Hand-written ports with other names and permuted layouts, the first fault of each."""
    from firstdiff.testing.ports.port import Wrong, reference_run
    from firstdiff.testing.ports.table import ports

    for name, port in ports().items():
        if port.half != "open":
            continue
        built = port.build()
        sides = [folder / f"{name}-{side}" for side in ("reference", "healthy", "wrong")]
        reference_run(port, built, sides[0])
        port.run(built, Wrong(), sides[1])
        port.run(built, Wrong(port.faults[0]), sides[2])
        words = ["--allow-missing", "--allow-extra"]
        words += [word for layout in port.accept_layout for word in ("--accept-layout", layout)]
        try:
            matching = _cost(sides[0], sides[1], *words, matches=True)
            differing = _cost(sides[0], sides[2], *words)
        except RuntimeError:
            yield Row(f"port of {name}, {port.faults[0].name}: right verdicts", 0.0, "", "= 1", False)
            continue
        yield from _gate(f"port of {name}, {port.faults[0].name}", matching, differing)


def _sounds(folder: Path) -> Iterator[Row]:
    import soundfile

    time = np.arange(RATE * SECONDS) / RATE
    rng = np.random.default_rng(0)
    for side in ("reference", "same", "other"):
        (folder / side).mkdir()
    for n in range(3):
        envelope = 0.6 + 0.4 * np.sin(2 * np.pi * 1.3 * time)
        sound = 0.4 * envelope * np.sin(2 * np.pi * (220 + 55 * n) * time) + 0.05 * rng.standard_normal(time.size)
        for side in ("reference", "same"):
            soundfile.write(folder / side / f"{n}.wav", sound, RATE)
        soundfile.write(folder / "other" / f"{n}.wav", 0.8 * np.roll(sound, 37), RATE)
    matching = _cost(folder / "reference", folder / "same", matches=True)
    yield from _gate("three sounds of ten seconds", matching, _cost(folder / "reference", folder / "other"))
