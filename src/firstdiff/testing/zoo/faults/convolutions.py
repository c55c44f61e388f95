"""Mistakes in convolutions and in resizing."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from firstdiff.testing.zoo.edits import edit_function
from firstdiff.testing.zoo.fault import Site, Subject, fault


@fault("convolution padding mode", "conv.padding", on="vocoder whisper")
def padding_mode(subject: Subject) -> Site:
    name, module = _convolution(subject, lambda found: found.padding[0] > 0)
    mode = subject.random.choice(["replicate", "reflect", "circular"])
    amount = module.padding[0]

    def forward(x: torch.Tensor) -> torch.Tensor:
        padded = functional.pad(x, (amount, amount), mode=mode)
        return functional.conv1d(padded, module.weight, module.bias, module.stride, 0, module.dilation)

    module.forward = forward
    return Site(name)


@fault("convolution padding on one side", "conv.padding", on="vocoder whisper")
def one_sided(subject: Subject) -> Site:
    name, module = _convolution(subject, lambda found: found.padding[0] > 0 and found.stride[0] == 1)
    amount = module.padding[0]

    def forward(x: torch.Tensor) -> torch.Tensor:
        padded = functional.pad(x, (2 * amount, 0))
        return functional.conv1d(padded, module.weight, module.bias, module.stride, 0, module.dilation)

    module.forward = forward
    return Site(name)


@fault("convolution stride phase", "conv.stride", on="vocoder whisper")
def stride_phase(subject: Subject) -> Site:
    """Every second place is taken, starting from the other one."""
    name, module = _convolution(subject, lambda found: found.stride[0] == 2)
    amount = module.padding[0]

    def forward(x: torch.Tensor) -> torch.Tensor:
        padded = functional.pad(x, (amount - 1, amount + 1))
        return functional.conv1d(padded, module.weight, module.bias, module.stride, 0, module.dilation)

    module.forward = forward
    return Site(name)


@fault("convolution dilation", "conv.dilation", on="vocoder")
def dilation(subject: Subject) -> Site:
    name, module = _convolution(subject, lambda found: found.kernel_size[0] == 3)
    module.dilation = module.padding = (1,) if module.dilation[0] > 1 else (2,)
    return Site(name)


@fault("convolution kernel flipped", "conv.flipped", on="vocoder whisper")
def flipped(subject: Subject) -> Site:
    """Convolution in place of correlation."""
    name, module = _convolution(subject, lambda found: found.kernel_size[0] > 1)
    module.forward = lambda x: functional.conv1d(
        x, module.weight.flip(-1), module.bias, module.stride, module.padding, module.dilation
    )
    return Site(name)


@fault("interpolation mode", "resize.mode", on="vocoder")
def interpolation(subject: Subject) -> Site:
    name, module = subject.of_kind("Upsample")
    wrong: dict[str, Any] = subject.random.choice(
        [{"mode": "nearest", "align_corners": None}, {"mode": "linear", "align_corners": True}]
    )
    edit_function(module, "interpolate", lambda function, *args, **named: function(*args, **named | wrong))
    return Site(name)


def _convolution(subject: Subject, fits: Any) -> tuple[str, Any]:
    return subject.one_of("convolution", lambda _, found: type(found).__name__ == "Conv1d" and fits(found))
