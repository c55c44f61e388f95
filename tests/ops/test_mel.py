from __future__ import annotations

import numpy as np
import pytest
import torch

from firstdiff.ops.mel import hz_to_mel, log_mel, mel_filterbank, mel_scale, mel_spectrogram, mel_to_hz, spectrogram
from firstdiff.ops.spectral import hann_window
from tests.ops.oracle import assert_agrees, double, values


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
