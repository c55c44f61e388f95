from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from firstdiff.ops.mel import mel_filterbank
from tests.ops.captured import assert_reproduced, operations

SOUND = torch.randn(1, 800, generator=torch.Generator().manual_seed(1))


class Spectrogram(nn.Module):
    """Attributes and buffers as torchaudio names them."""

    def __init__(self, power: float | None = 2.0) -> None:
        super().__init__()
        self.n_fft, self.win_length, self.hop_length = 64, 48, 16
        self.pad, self.power, self.normalized, self.center, self.pad_mode = 3, power, False, True, "reflect"
        self.register_buffer("window", torch.hann_window(48))

    def forward(self, waveform: torch.Tensor) -> torch.Tensor:
        padded = nn.functional.pad(waveform, (self.pad, self.pad))
        bins = torch.stft(padded, self.n_fft, self.hop_length, self.win_length, self.window, return_complex=True)
        return bins if self.power is None else bins.abs() ** self.power


class MelScale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        filters = mel_filterbank(sample_rate=8000, n_fft=64, n_mels=10, scale="htk", norm=None)
        self.register_buffer("fb", torch.from_numpy(filters.T.copy()).float())

    def forward(self, specgram: torch.Tensor) -> torch.Tensor:
        return (specgram.mT @ self.fb).mT


class MelSpectrogram(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sample_rate, self.n_fft, self.win_length, self.hop_length, self.pad = 8000, 64, 48, 16, 3
        self.power, self.normalized, self.n_mels, self.f_min, self.f_max = 2.0, False, 10, 0.0, None
        self.spectrogram, self.mel_scale = Spectrogram(), MelScale()

    def forward(self, waveform: torch.Tensor) -> torch.Tensor:
        return self.mel_scale(self.spectrogram(waveform))


@pytest.mark.parametrize("filters_recorded", [False, True])
def test_a_mel_spectrogram_and_its_parts(tmp_path: Path, filters_recorded: bool) -> None:
    from dataclasses import replace

    by_name = {found.name: found for found in operations(MelSpectrogram(), tmp_path, SOUND)}
    assert_reproduced(by_name["spectrogram"], "spectrogram", power=2.0)
    assert_reproduced(by_name["mel_scale"], "mel_scale")
    whole = by_name["root"]
    if not filters_recorded:
        kept = {name: array for name, array in whole.params.items() if name != "mel_scale.fb"}
        whole = replace(whole, params=kept)
    kind = {} if filters_recorded else {"scale": "htk", "norm": None}
    again = assert_reproduced(whole, "mel_spectrogram", **kind)
    assert again.plan.assumed == (() if filters_recorded else ("scale", "norm"))


def test_no_power_is_the_complex_spectrum(tmp_path: Path) -> None:
    found = {found.name: found for found in operations(Spectrogram(power=None), tmp_path, SOUND)}
    assert_reproduced(found["root"], "spectrogram", power=None)
