"""Vocoder: weight-normed transposed convolutions, then short frames that are windowed and added up; 22,050 Hz."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

from tts.mel import MELS, Window

CHANNELS, FRAME, FRAME_HOP = (32, 16, 8), 64, 16
GAIN = 0.5


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.act, self.conv = nn.LeakyReLU(0.1), weight_norm(nn.Conv1d(channels, channels, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(self.act(x))


class WindowColumns(Window):
    """frames as columns [1, samples of a frame, frames], times the window"""

    def forward(self, frames: Tensor) -> Tensor:
        return frames * self.window[:, None]


class OverlapAdd(nn.Module):
    """frames [1, 64, frames] -> sound [1, samples], frames 16 samples apart; Hann windows add up to 2"""

    def forward(self, frames: Tensor) -> Tensor:
        count = frames.shape[2]
        length = (count - 1) * FRAME_HOP + FRAME
        added = functional.fold(frames, (1, length), (1, FRAME), stride=(1, FRAME_HOP))
        return added[:, 0, 0, : count * FRAME_HOP] / 2


class Gain(nn.Module):
    def forward(self, wave: Tensor) -> Tensor:
        return GAIN * wave


class Vocoder(nn.Module):
    """mel [1, frames, 80] -> sound [1, 256 * frames]"""

    def __init__(self) -> None:
        super().__init__()
        self.pre = weight_norm(nn.Conv1d(MELS, CHANNELS[0], 7, padding=3))
        pairs = list(pairwise(CHANNELS))
        self.ups = nn.ModuleList(weight_norm(nn.ConvTranspose1d(a, b, 8, stride=4, padding=2)) for a, b in pairs)
        self.acts = nn.ModuleList(nn.LeakyReLU(0.1) for _ in pairs)
        self.residuals = nn.ModuleList(Residual(b) for _, b in pairs)
        self.post = weight_norm(nn.Conv1d(CHANNELS[-1], FRAME, 7, padding=3))
        self.window, self.overlap_add, self.tanh, self.gain = WindowColumns(FRAME), OverlapAdd(), nn.Tanh(), Gain()

    def forward(self, mel: Tensor) -> Tensor:
        x = self.pre(mel.transpose(1, 2))
        for act, up, residual in zip(self.acts, self.ups, self.residuals, strict=True):
            x = residual(up(act(x)))
        return self.gain(self.tanh(self.overlap_add(self.window(self.post(x)))))
