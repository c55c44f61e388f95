"""Mistakes in spectrograms and in overlap-add."""

from __future__ import annotations

import math
from typing import Any

import torch

from firstdiff.testing.zoo.edits import change_output, edit_function
from firstdiff.testing.zoo.fault import Site, Subject, fault


@fault("log base", "audio.log_base", on="vocoder")
def log_base(subject: Subject) -> Site:
    base = subject.random.choice([2.0, 10.0])
    edit_function(subject.model.get_submodule("mel"), "log", lambda function, x: function(x) / math.log(base))
    return Site("mel")


@fault("magnitude for power", "audio.power", on="vocoder")
def power(subject: Subject) -> Site:
    _module(subject, "mel").power = 1.0
    return Site("mel")


@fault("spectrogram window", "audio.window", on="vocoder")
def window(subject: Subject) -> Site:
    module = _module(subject, "mel")
    size = module.window.shape[0]
    wrong = [torch.ones(size), torch.hamming_window(size), torch.hann_window(size, periodic=False)]
    module.window = subject.random.choice(wrong)
    return Site("mel")


@fault("spectrogram hop", "audio.hop", on="vocoder")
def hop(subject: Subject) -> Site:
    """Frames are taken too close together; the end is cut off."""
    module = _module(subject, "mel")

    def closer(function: Any, wave: torch.Tensor, axis: int, size: int, step: int) -> torch.Tensor:
        whole = function(wave, axis, size, step)
        return function(wave, axis, size, step - 1)[:, : whole.shape[1]].clone()  # type: ignore[no-any-return]

    edit_function(module, "unfold", closer)
    return Site("mel")


@fault(
    "mel filters normalised",
    "scale.channel",
    "weights.differ",
    on="vocoder",
    why="the filters are weights, and each band of them is scaled",
)
def filters(subject: Subject) -> Site:
    module = _module(subject, "mel")
    module.filters = module.filters / module.filters.amax(1, keepdim=True)
    return Site("mel")


@fault("overlap-add without window", "audio.window", on="vocoder")
def overlap_window(subject: Subject) -> Site:
    module = _module(subject, "out")
    module.window = torch.ones_like(module.window)
    return Site("out")


@fault("overlap-add hop", "audio.hop", on="vocoder")
def overlap_hop(subject: Subject) -> Site:
    """Frames are put down too close together; zeros fill the end."""
    module = _module(subject, "out")

    def closer(forward: Any, x: torch.Tensor) -> torch.Tensor:
        length = (x.shape[-1] - 1) * 16 + module.window.shape[0]
        made: torch.Tensor = forward(x)
        return torch.nn.functional.pad(made, (0, length - made.shape[-1]))

    module.hop = subject.random.choice([12, 15])
    inner = module.forward
    module.forward = lambda x: closer(inner, x)
    return Site("out")


@fault(
    "output gain",
    "audio.gain",
    "scale.constant",
    on="vocoder",
    why="a gain is a constant scale of a sound",
)
def gain(subject: Subject) -> Site:
    factor = subject.random.choice([0.5, 2.0, 32768.0])
    change_output(_module(subject, "out"), lambda x: x * factor)
    return Site("out")


@fault(
    "output delayed",
    "audio.delay",
    "shift.sequence",
    on="vocoder",
    why="a delay is a shift of a sound",
)
def delay(subject: Subject) -> Site:
    by = subject.random.choice([1, 7, 16])
    change_output(_module(subject, "out"), lambda x: torch.nn.functional.pad(x, (by, 0))[..., : x.shape[-1]])
    return Site("out")


def _module(subject: Subject, name: str) -> Any:
    return subject.model.get_submodule(name)
