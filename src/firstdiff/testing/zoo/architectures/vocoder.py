"""A vocoder of convolutions: spectrogram of a waveform in, upsampled, waveform out by overlap-add."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

SAMPLES, FRAME, HOP, BANDS, WIDTH = 512, 32, 16, 16, 32


class Spectrogram(nn.Module):
    """Log-mel of a waveform."""

    window: torch.Tensor
    filters: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.hop = HOP
        self.power = 2.0
        self.base_e = True
        self.register_buffer("window", torch.hann_window(FRAME))
        edges = torch.linspace(0, FRAME // 2, BANDS + 2)
        bins = torch.arange(FRAME // 2 + 1).float()
        rise = (bins[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
        fall = (edges[2:, None] - bins[None]) / (edges[2:] - edges[1:-1])[:, None]
        self.register_buffer("filters", torch.minimum(rise, fall).clamp(min=0))

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        frames = wave.unfold(-1, FRAME, self.hop) * self.window
        magnitude = torch.fft.rfft(frames).abs()
        mel = torch.matmul(magnitude.pow(self.power), self.filters.T)
        return torch.log(mel.clamp(min=1e-5)).transpose(1, 2)


class Residual(nn.Module):
    """A dilated convolution around a skip connection."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, width)
        self.act = nn.LeakyReLU(0.1)
        self.dilated = nn.Conv1d(width, width, 3, dilation=dilation, padding=dilation)
        self.pointwise = nn.Conv1d(width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        branch: torch.Tensor = self.pointwise(self.act(self.dilated(self.act(self.norm(x)))))
        return x + branch


class Upsample(nn.Module):
    """Twice as many frames: a transposed convolution beside an interpolation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose1d(width, width, 4, stride=2, padding=1)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        smooth = functional.interpolate(x, scale_factor=2.0, mode="linear", align_corners=False)
        out: torch.Tensor = self.norm(self.up(x) + smooth)
        return out


class OverlapAdd(nn.Module):
    """Frames into a waveform."""

    window: torch.Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.frames = nn.Conv1d(width, FRAME, 1)
        self.hop = HOP
        self.register_buffer("window", torch.hann_window(FRAME))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        frames = torch.tanh(self.frames(x) / 4) * self.window[:, None]
        length = (x.shape[-1] - 1) * self.hop + FRAME
        return functional.fold(frames, (1, length), (1, FRAME), stride=(1, self.hop))[:, 0, 0]


class Vocoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mel = Spectrogram()
        self.head = nn.Conv1d(BANDS, WIDTH, 5, padding=2)
        self.stages = nn.ModuleList(
            nn.ModuleDict({"up": Upsample(WIDTH), "one": Residual(WIDTH, 1), "three": Residual(WIDTH, 3)})
            for _ in range(2)
        )
        self.down = nn.Conv1d(WIDTH, WIDTH, 4, stride=2, padding=1)
        self.out = OverlapAdd(WIDTH)

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        x = self.head(self.mel(wave).to(self.head.weight.dtype))
        for stage in self.stages:
            assert isinstance(stage, nn.ModuleDict)
            x = stage["three"](stage["one"](stage["up"](x)))
        out: torch.Tensor = self.out(self.down(x))
        return out


def waveform(generator: torch.Generator, batch: int) -> dict[str, Any]:
    time = torch.arange(SAMPLES) / SAMPLES
    pitch = 8 + 40 * torch.rand(batch, 3, 1, generator=generator)
    tones = torch.sin(2 * torch.pi * pitch * time).sum(1)
    return {"wave": tones + 0.1 * torch.randn(batch, SAMPLES, generator=generator)}
