"""The definition of a port: a rewritten model, the faults it can have, and a function to run it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import torch
from torch import nn

from firstdiff.capturing import CaptureWarning, capture, record
from firstdiff.testing.zoo.architectures import Built

Half = Literal["open", "locked"]
Array: TypeAlias = np.ndarray
Weights: TypeAlias = Mapping[str, Array]


class Tap(Protocol):
    """Record a value under a name and give it back."""

    def __call__(self, name: str, value: Array, /, *, step: int | None = None) -> Array: ...


@dataclass(frozen=True, slots=True)
class Fault:
    """A mistake that porters make.

    name: what the port's code asks `Wrong` for
    places: keys of the reference at which it shows first among what both sides record; `*` stands for anything, but not
        for inputs, and keys that hold the same values are the same place
    causes: codes that count as right; none where no code says it
    layer: the only layer that has it; all of them if left out
    """

    name: str
    places: tuple[str, ...]
    causes: tuple[str, ...] = ()
    layer: int | None = None


def fault(name: str, places: str, causes: str = "", layer: int | None = None) -> Fault:
    """A fault from words apart by spaces; `{n}` in a place is the layer."""
    return Fault(
        name, tuple(place.replace("{n}", str(layer)) for place in places.split()), tuple(causes.split()), layer
    )


class Wrong:
    """The mistake that a run of a port makes, if any."""

    def __init__(self, planted: Fault | None = None) -> None:
        self._planted = planted
        self.asked: set[str] = set()

    def __call__(self, name: str, layer: int | None = None) -> bool:
        """True where the code has to do it wrong."""
        self.asked.add(name)
        planted = self._planted
        return planted is not None and planted.name == name and planted.layer in (None, layer)


RunPort: TypeAlias = Callable[[Built, Wrong, Path], Array]
CallModel: TypeAlias = Callable[[nn.Module, dict[str, Any]], Any]
NumpyPort: TypeAlias = Callable[[Weights, dict[str, Array], Tap, Wrong], Array]


@dataclass(frozen=True, slots=True)
class Port:
    """A model written again.

    name: the family
    half: whether pairing may be tuned on it
    style: who might have written it
    build: makes the reference and its inputs
    result: takes the final values out of what the reference gives back
    run: runs the port with the reference's weights and inputs, records its trace and gives back the final values
    faults: mistakes it can make
    accept_layout: layouts that its author states, as `--accept-layout` does
    call: runs the reference on its inputs
    """

    name: str
    half: Half
    style: str
    build: Callable[[], Built]
    result: Callable[[Any], torch.Tensor]
    run: RunPort
    faults: tuple[Fault, ...]
    accept_layout: tuple[str, ...] = ()
    call: CallModel = lambda model, inputs: model(**inputs)


def numpy_port(function: NumpyPort) -> RunPort:
    """Run a port written in numpy, which records with taps."""

    def run(built: Built, wrong: Wrong, path: Path) -> Array:
        with record(path) as recording:
            return function(*_arrays(built), recording.tap, wrong)

    return run


def files_port(function: NumpyPort) -> RunPort:
    """Run a port that saves plain .npy files, numbered in the order of the run: `03_conv2.npy`."""

    def run(built: Built, wrong: Wrong, path: Path) -> Array:
        path.mkdir(parents=True)

        def tap(name: str, value: Array, /, *, step: int | None = None) -> Array:
            assert step is None, "plain files have no steps"
            np.save(path / f"{len(list(path.iterdir())):02d}_{name}.npy", value)
            return value

        return function(*_arrays(built), tap, wrong)

    return run


def _arrays(built: Built) -> tuple[Weights, dict[str, Array]]:
    weights = {name: values.numpy() for name, values in built.model.state_dict().items()}
    return weights, {name: values.numpy() for name, values in built.inputs.items()}


def torch_port(
    make: Callable[[Mapping[str, torch.Tensor], Wrong], nn.Module],
    call: CallModel = lambda model, inputs: model(*inputs.values()),
) -> RunPort:
    """Run a port written as a torch module, which is captured."""

    def run(built: Built, wrong: Wrong, path: Path) -> Array:
        module = make(built.model.state_dict(), wrong).eval().requires_grad_(False)
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore", CaptureWarning)  # porters take no notice of another last bit
            with capture(module, path):
                final: torch.Tensor = call(module, built.inputs)
        return final.numpy()

    return run


def reference_run(port: Port, built: Built, path: Path) -> Array:
    """Capture the reference; gives back its final values."""
    with torch.no_grad(), capture(built.model, path):
        return port.result(port.call(built.model, built.inputs)).numpy()
