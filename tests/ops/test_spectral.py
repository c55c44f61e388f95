"""Fourier transforms and mel spectrograms, and as modules record them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn

from firstdiff.ops.spectral import (
    hamming_window,
    hann_window,
    hz_to_mel,
    istft,
    log_mel,
    mel_filterbank,
    mel_scale,
    mel_spectrogram,
    mel_to_hz,
    overlap_add,
    spectrogram,
    stft,
)
from tests.ops.captured import assert_reproduced, operations
from tests.ops.oracle import assert_agrees, double, dtypes, seeds, values


@settings(max_examples=50)
@given(
    seed=seeds,
    n_fft=st.integers(4, 33),
    hop=st.one_of(st.none(), st.integers(1, 20)),
    shorter=st.integers(0, 3),
    length=st.integers(40, 90),
    center=st.booleans(),
    mode=st.sampled_from(["reflect", "constant", "replicate"]),
    normalized=st.booleans(),
    onesided=st.booleans(),
    dtype=dtypes,
)
def test_stft_is_torchs(
    seed: int,
    n_fft: int,
    hop: int | None,
    shorter: int,
    length: int,
    center: bool,
    mode: str,
    normalized: bool,
    onesided: bool,
    dtype: np.dtype,
) -> None:
    x, window = values(seed, 2, length, dtype=dtype), np.abs(values(seed + 1, n_fft - shorter))
    how = {
        "n_fft": n_fft,
        "hop_length": hop,
        "win_length": n_fft - shorter,
        "center": center,
        "pad_mode": mode,
        "normalized": normalized,
        "onesided": onesided,
    }
    wanted = torch.stft(double(x), window=double(window), return_complex=True, **how)
    assert_agrees(stft(x, window, **how), wanted)


@pytest.mark.filterwarnings("ignore:The length of signal is shorter")
@settings(max_examples=50)
@given(
    seed=seeds,
    n_fft=st.integers(4, 32),
    part=st.integers(2, 5),
    frames=st.integers(2, 9),
    center=st.booleans(),
    normalized=st.booleans(),
    onesided=st.booleans(),
    longer=st.sampled_from([None, -3, 0, 7]),
)
def test_istft_is_torchs(
    seed: int, n_fft: int, part: int, frames: int, center: bool, normalized: bool, onesided: bool, longer: int | None
) -> None:
    hop = max(1, n_fft // part)
    window = np.abs(values(seed, n_fft)) + 0.1
    bins = n_fft // 2 + 1 if onesided else n_fft
    spectrum = values(seed, 2, bins, frames) + 1j * values(seed + 1, 2, bins, frames)
    natural = n_fft + hop * (frames - 1) - (2 * (n_fft // 2) if center else 0)
    length = None if longer is None else natural + longer
    assume(length is None or length > 0)
    how = {"n_fft": n_fft, "hop_length": hop, "center": center, "normalized": normalized}
    wanted = torch.istft(torch.from_numpy(spectrum), window=double(window), length=length, onesided=onesided, **how)
    assert_agrees(istft(spectrum, window, length=length, **how), wanted, 1e-11)


def test_there_and_back_again() -> None:
    x, window = values(1, 400), hann_window(64)
    back = istft(stft(x, window, n_fft=64, hop_length=16), window, n_fft=64, hop_length=16, length=400)
    np.testing.assert_allclose(back, x, atol=1e-13)


@pytest.mark.parametrize(("size", "hop"), [(8, 2), (8, 3), (5, 5), (4, 7), (6, 1)])
def test_overlap_add_is_a_fold(size: int, hop: int) -> None:
    frames = values(1, 3, 6, size)
    wanted = torch.zeros(3, 5 * hop + size, dtype=torch.float64)
    for number in range(6):
        wanted[:, number * hop : number * hop + size] += double(frames)[:, number]
    assert_agrees(overlap_add(frames, hop_length=hop), wanted)


def test_overlap_add_divides_by_the_windows_if_asked() -> None:
    window = hann_window(8, periodic=True)
    ones = np.ones((6, 8)) * window
    found = overlap_add(ones, window, hop_length=2, weighted=True)
    np.testing.assert_allclose(found[2:-2], 1.0, atol=1e-13)
    assert overlap_add(np.zeros((0, 8)), hop_length=2).shape == (0,)


@pytest.mark.parametrize("length", [1, 2, 7, 16])
@pytest.mark.parametrize("periodic", [False, True])
def test_windows_are_torchs(length: int, periodic: bool) -> None:
    double_type = {"dtype": torch.float64}
    assert_agrees(hann_window(length, periodic=periodic), torch.hann_window(length, periodic, **double_type))
    assert_agrees(hamming_window(length, periodic=periodic), torch.hamming_window(length, periodic, **double_type))


def test_slaney_is_linear_to_1000_and_logarithmic_beyond() -> None:
    """The worked examples of librosa's documentation, and the definition: 27 steps multiply by 6.4."""
    np.testing.assert_allclose(hz_to_mel([60, 110, 220, 440, 1000]), [0.9, 1.65, 3.3, 6.6, 15.0])
    np.testing.assert_allclose(mel_to_hz([1, 2, 3, 4, 5]), [66.667, 133.333, 200.0, 266.667, 333.333], rtol=1e-5)
    np.testing.assert_allclose(hz_to_mel(6400.0), 42.0)


def test_htk_is_its_formula() -> None:
    np.testing.assert_allclose(
        hz_to_mel([0.0, 700.0, 1000.0], scale="htk"), [0.0, 2595 * np.log10(2), 999.9855], rtol=1e-6
    )


@pytest.mark.parametrize("scale", ["slaney", "htk"])
def test_mel_and_back(scale: str) -> None:
    f = np.linspace(0, 12000, 301)
    np.testing.assert_allclose(mel_to_hz(hz_to_mel(f, scale=scale), scale=scale), f, atol=1e-9)


@pytest.mark.parametrize("scale", ["slaney", "htk"])
@pytest.mark.parametrize("norm", ["slaney", None])
def test_filters_are_triangles_between_their_corners(scale: str, norm: str | None) -> None:
    how = {"sample_rate": 16000, "n_fft": 400, "n_mels": 20, "f_min": 50.0, "f_max": 7000.0}
    filters = mel_filterbank(scale=scale, norm=norm, **how)
    ends = hz_to_mel([50.0, 7000.0], scale=scale)
    corners = mel_to_hz(np.linspace(*ends, 22), scale=scale)
    bins = np.arange(201) * 40.0
    for number, (low, middle, high) in enumerate(zip(corners, corners[1:], corners[2:], strict=False)):
        height = 2 / (high - low) if norm else 1.0
        np.testing.assert_allclose(filters[number], np.interp(bins, [low, middle, high], [0, height, 0]), atol=1e-12)


def test_a_mel_spectrogram_is_its_parts() -> None:
    x, window = values(1, 2, 2000), hann_window(400)
    bins = torch.stft(double(x), 400, 160, 400, double(window), return_complex=True).abs() ** 2
    filters = mel_filterbank(sample_rate=16000, n_fft=400, n_mels=20)
    wanted = double(filters) @ bins
    found = mel_spectrogram(x, window, sample_rate=16000, n_fft=400, hop_length=160, n_mels=20)
    assert_agrees(found, wanted, 1e-11)
    energy = spectrogram(x, window, n_fft=400, hop_length=160)
    assert_agrees(energy, bins, 1e-11)
    assert_agrees(mel_scale(energy, filters), wanted, 1e-11)


@pytest.mark.parametrize("power", [None, 1.0, 2.0])
def test_power_padding_and_normalisation(power: float | None) -> None:
    x, window = values(1, 600), hann_window(64)
    padded = torch.nn.functional.pad(double(x), (7, 7))
    bins = torch.stft(padded, 64, 16, 64, double(window), return_complex=True) / double(window).norm()
    found = spectrogram(x, window, n_fft=64, hop_length=16, pad=7, normalized=True, power=power)
    assert_agrees(found, bins if power is None else bins.abs() ** power, 1e-11)


def test_logarithms() -> None:
    x = np.array([0.0, 1e-12, 1.0, 100.0])
    np.testing.assert_allclose(log_mel(x), np.log([1e-10, 1e-10, 1, 100]))
    np.testing.assert_allclose(log_mel(x, base="10", floor=1e-5), [-5, -5, 0, 2], atol=1e-15)
    np.testing.assert_allclose(log_mel(x, base="decibel", span=80.0), [-60, -60, 0, 20], atol=1e-13)
    assert log_mel(np.zeros((3, 0)), span=8.0).shape == (3, 0)


def test_unknown_words_are_refused() -> None:
    with pytest.raises(ValueError, match="base is '2'"):
        log_mel(np.ones(1), base="2")
    with pytest.raises(ValueError, match="scale is 'bark'"):
        hz_to_mel(1.0, scale="bark")


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
