"""A sampler of a diffusion model: a picture is mixed with noise, and a few steps of the model take the noise away."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

WIDTH, CHANNELS, SIZE, TRAINED = 16, 4, 8, 50
TIMES = (40, 31, 22, 13, 4)


class Schedule(nn.Module):
    """Return the signal power at each training step, for linearly spaced betas."""

    def forward(self) -> torch.Tensor:
        betas = torch.linspace(1e-4, 0.02, TRAINED) * (1000 / TRAINED)
        return torch.cumprod(1 - betas, dim=0)


class Noising(nn.Module):
    """Mix signal and noise by their weights."""

    def forward(self, picture: torch.Tensor, noise: torch.Tensor, left: torch.Tensor) -> torch.Tensor:
        return left.sqrt() * picture + (1 - left).sqrt() * noise


class Denoiser(nn.Module):
    """Predict the noise in a picture at a time step."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(CHANNELS, WIDTH, 3, padding=1)
        self.time = nn.Linear(1, WIDTH)
        self.norm = nn.GroupNorm(4, WIDTH)
        self.act = nn.SiLU()
        self.last = nn.Conv2d(WIDTH, CHANNELS, 3, padding=1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        moved = self.time(time[:, None].to(self.time.weight.dtype) / TRAINED)
        out: torch.Tensor = self.last(self.act(self.norm(self.first(x) + moved[:, :, None, None])))
        return out


class Step(nn.Module):
    """A DDIM step: predicted signal and noise, mixed for the next time."""

    def forward(
        self, x: torch.Tensor, predicted: torch.Tensor, left: torch.Tensor, left_next: torch.Tensor
    ) -> torch.Tensor:
        signal = (x - (1 - left).sqrt() * predicted) / left.sqrt()
        return left_next.sqrt() * signal + (1 - left_next).sqrt() * predicted


class Sampler(nn.Module):
    """`ahead`: by how many steps the model is asked too early."""

    def __init__(self) -> None:
        super().__init__()
        self.schedule = Schedule()
        self.noising = Noising()
        self.model = Denoiser()
        self.step = Step()
        self.ahead = 0

    def forward(self, picture: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        left = self.schedule()
        given = self.model.first.weight.dtype
        x: torch.Tensor = self.noising(picture.to(given), noise.to(given), left[TIMES[0]])
        for at in range(len(TIMES) - 1):
            time = torch.full((len(x),), float(TIMES[at + self.ahead]))
            x = self.step(x, self.model(x, time), left[TIMES[at]], left[TIMES[at + 1]])
        return x


def drawn(generator: torch.Generator, batch: int) -> dict[str, Any]:
    smooth = torch.rand(batch, CHANNELS, 2, 2, generator=generator)
    picture = nn.functional.interpolate(smooth, size=(SIZE, SIZE), mode="bilinear")
    return {"picture": picture, "noise": torch.randn(batch, CHANNELS, SIZE, SIZE, generator=generator)}
