"""Mel spectrogram of a voice: frames, window, power, mel filters, log10."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

SAMPLE_RATE, N_FFT, HOP, MELS = 22_050, 2048, 256, 80


class Frames(nn.Module):
    def forward(self, wave: Tensor) -> Tensor:
        padded = functional.pad(wave[None], (N_FFT // 2, N_FFT // 2), mode="reflect")
        return padded[0].unfold(0, N_FFT, HOP).contiguous()


class Window(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(size, periodic=True), persistent=False)

    def forward(self, frames: Tensor) -> Tensor:
        return frames * self.window


class Power(nn.Module):
    def forward(self, frames: Tensor) -> Tensor:
        return torch.fft.rfft(frames).abs().square()


class Filters(nn.Module):
    """Triangles that are evenly spaced in mel (HTK's formula)."""

    def __init__(self) -> None:
        super().__init__()
        highest = 2595 * math.log10(1 + SAMPLE_RATE / 2 / 700)
        corners = 700 * (10 ** (torch.linspace(0, highest, MELS + 2, dtype=torch.float64) / 2595) - 1)
        bins = torch.linspace(0, SAMPLE_RATE / 2, N_FFT // 2 + 1, dtype=torch.float64)
        rising = (bins[:, None] - corners[None, :-2]) / (corners[1:-1] - corners[:-2])
        falling = (corners[None, 2:] - bins[:, None]) / (corners[2:] - corners[1:-1])
        self.register_buffer("filters", torch.minimum(rising, falling).clamp(min=0).float(), persistent=False)

    def forward(self, power: Tensor) -> Tensor:
        return power @ self.filters


class Log(nn.Module):
    def forward(self, mel: Tensor) -> Tensor:
        return torch.log10(mel.clamp(min=1e-5))


class MelSpectrogram(nn.Module):
    """wave [samples] -> mel [1, frames, mels]"""

    def __init__(self) -> None:
        super().__init__()
        self.frames, self.window, self.power = Frames(), Window(N_FFT), Power()
        self.filters, self.log = Filters(), Log()

    def forward(self, wave: Tensor) -> Tensor:
        return self.log(self.filters(self.power(self.window(self.frames(wave)))))[None]
