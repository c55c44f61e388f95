"""Mistakes of samplers: the schedule of noise, the rule of a step, the time of a step, the draw."""

from __future__ import annotations

import math
from typing import Any

import torch

from firstdiff.testing.zoo.architectures.sampler import TRAINED
from firstdiff.testing.zoo.edits import around_forward
from firstdiff.testing.zoo.fault import Site, Subject, fault


@fault("another noise schedule", "noise.schedule", on="sampler")
def schedule(subject: Subject) -> Site:
    module: Any = subject.model.get_submodule("schedule")

    def cosine() -> torch.Tensor:
        left = torch.cos((torch.linspace(0, 1, TRAINED + 1) + 0.008) / 1.008 * math.pi / 2) ** 2
        return torch.cumprod(left[1:] / left[:-1], dim=0).clamp(1e-3, 1)

    def rooted() -> torch.Tensor:
        betas = torch.linspace(0.00085**0.5, 0.012**0.5, TRAINED) ** 2 * (1000 / TRAINED)
        return torch.cumprod(1 - betas, dim=0)

    module.forward = subject.random.choice([cosine, rooted])
    return Site("schedule")


@fault("signal and noise by another time", "noise.schedule", on="sampler")
def noised_for_another_time(subject: Subject) -> Site:
    """In one kernel, as a port would have it: the weights are those of another time."""
    later: float = subject.random.choice([0.3, 0.8])

    def mixed(_: Any, picture: torch.Tensor, noise: torch.Tensor, _left: torch.Tensor) -> torch.Tensor:
        with torch._C.DisableTorchFunction():
            return picture * math.sqrt(later) + noise * math.sqrt(1 - later)

    around_forward(subject.model.get_submodule("noising"), mixed)
    return Site("noising")


@fault("another rule of a step", "transition.kernel", on="sampler")
def ancestral_mean(subject: Subject) -> Site:
    """The mean of DDPM in place of DDIM, in one kernel."""

    def mean(_: Any, x: torch.Tensor, predicted: torch.Tensor, left: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
        with torch._C.DisableTorchFunction():
            alpha = left / after
            return (x - (1 - alpha) / (1 - left).sqrt() * predicted) / alpha.sqrt()

    around_forward(subject.model.get_submodule("step"), mean)
    return Site("step")


@fault("time of the next step", "score.stagger", on="sampler")
def ahead(subject: Subject) -> Site:
    model: Any = subject.model
    model.ahead = 1
    return Site("root")


@fault("another draw of the noise", "sampling.draw", on="sampler diffusion")
def draw(subject: Subject) -> Site:
    name = "noise" if subject.architecture == "sampler" else "picture"
    other = torch.Generator().manual_seed(subject.random.randrange(1 << 30))
    subject.inputs[name] = torch.randn(subject.inputs[name].shape, generator=other)
    return Site("root", given=True)
