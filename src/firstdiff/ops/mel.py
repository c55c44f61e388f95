"""Mel filter banks and spectrograms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from firstdiff.ops.arrays import doubles
from firstdiff.ops.operator import operator
from firstdiff.ops.spectral import stft

# Slaney's scale is linear up to 1 kHz (15 mels) and logarithmic beyond
_SLANEY_STEP = 200.0 / 3.0
_SLANEY_KNEE = 1000.0
_SLANEY_KNEE_MEL = _SLANEY_KNEE / _SLANEY_STEP
_SLANEY_LOG_STEP = np.log(6.4) / 27.0

_LOGARITHMS: dict[str, Callable[[np.ndarray], Any]] = {
    "natural": np.log,
    "10": np.log10,
    "decibel": lambda x: 10.0 * np.log10(x),
}


@operator
def hz_to_mel(hertz: Any, *, scale: str = "slaney") -> Any:
    """Frequency to mel, `scale` "slaney" or "htk"."""
    f = np.asarray(hertz, dtype=np.float64)
    if _is_htk(scale):
        return 2595.0 * np.log10(1.0 + f / 700.0)
    beyond = _SLANEY_KNEE_MEL + np.log(np.maximum(f, _SLANEY_KNEE) / _SLANEY_KNEE) / _SLANEY_LOG_STEP
    return np.where(f < _SLANEY_KNEE, f / _SLANEY_STEP, beyond)


@operator
def mel_to_hz(mels: Any, *, scale: str = "slaney") -> Any:
    """Mel to frequency."""
    m = np.asarray(mels, dtype=np.float64)
    if _is_htk(scale):
        return 700.0 * (10.0 ** (m / 2595.0) - 1.0)
    beyond = _SLANEY_KNEE * np.exp(_SLANEY_LOG_STEP * (m - _SLANEY_KNEE_MEL))
    return np.where(m < _SLANEY_KNEE_MEL, m * _SLANEY_STEP, beyond)


@operator
def mel_filterbank(
    *,
    sample_rate: float,
    n_fft: int,
    n_mels: int,
    f_min: float = 0.0,
    f_max: float | None = None,
    scale: str = "slaney",
    norm: str | None = "slaney",
) -> Any:
    """Triangular filters `[mels, bins]`; librosa's by default, torchaudio's with `scale="htk", norm=None`.

    f_max: the upper end; half the sample rate if left out
    norm: "slaney" gives every filter the same area
    """
    bins = np.linspace(0.0, sample_rate / 2.0, n_fft // 2 + 1)
    ends = hz_to_mel([f_min, sample_rate / 2.0 if f_max is None else f_max], scale=scale)
    corners = mel_to_hz(np.linspace(ends[0], ends[1], n_mels + 2), scale=scale)
    widths = np.diff(corners)[:, None]
    slopes = corners[:, None] - bins
    rising, falling = -slopes[:-2] / widths[:-1], slopes[2:] / widths[1:]
    filters = np.maximum(0.0, np.minimum(rising, falling))
    if norm == "slaney":
        filters *= (2.0 / (corners[2:] - corners[:-2]))[:, None]
    return filters


@operator
def spectrogram(
    input: np.ndarray,
    window: np.ndarray | None = None,
    *,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    center: bool = True,
    pad: int = 0,
    pad_mode: str = "reflect",
    normalized: bool = False,
    power: float | None = 2.0,
) -> Any:
    """Magnitudes of `stft` to a power: 1 amplitude, 2 energy, None the complex spectrum.

    pad: zeros put at both ends first
    """
    x = doubles(input)
    x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(pad, pad)])
    bins = stft(x, window, n_fft=n_fft, hop_length=hop_length, win_length=win_length, center=center, pad_mode=pad_mode)
    if normalized:
        shape = np.ones(win_length or n_fft) if window is None else doubles(window)
        bins = bins / np.sqrt(np.sum(shape * shape))
    return bins if power is None else np.abs(bins) ** power


@operator
def mel_scale(input: np.ndarray, filters: np.ndarray) -> Any:
    """A spectrogram `[..., bins, frames]` through filters `[mels, bins]`."""
    return np.matmul(doubles(filters), doubles(input))


@operator
def mel_spectrogram(
    input: np.ndarray,
    window: np.ndarray | None = None,
    filters: np.ndarray | None = None,
    *,
    sample_rate: float,
    n_fft: int,
    n_mels: int = 128,
    hop_length: int | None = None,
    win_length: int | None = None,
    f_min: float = 0.0,
    f_max: float | None = None,
    center: bool = True,
    pad: int = 0,
    pad_mode: str = "reflect",
    normalized: bool = False,
    power: float = 2.0,
    scale: str = "slaney",
    norm: str | None = "slaney",
) -> Any:
    """A sound as `[..., mels, frames]`.

    filters: `[mels, bins]`; those of `mel_filterbank` if left out; the other settings are those of its parts
    """
    energy = spectrogram(
        input,
        window,
        n_fft=n_fft,
        hop_length=hop_length,
        win_length=win_length,
        center=center,
        pad=pad,
        pad_mode=pad_mode,
        normalized=normalized,
        power=power,
    )
    if filters is None:
        filters = mel_filterbank(
            sample_rate=sample_rate, n_fft=n_fft, n_mels=n_mels, f_min=f_min, f_max=f_max, scale=scale, norm=norm
        )
    return mel_scale(energy, filters)


@operator
def log_mel(input: np.ndarray, *, base: str = "natural", floor: float = 1e-10, span: float | None = None) -> Any:
    """The logarithm of a mel spectrogram.

    base: "natural", "10" or "decibel" (10 log10)
    floor: smaller values are raised to it first
    span: results further than this below the greatest are raised to that
    """
    if base not in _LOGARITHMS:
        raise ValueError(f"base is {base!r}; it takes {', '.join(_LOGARITHMS)}")
    out = _LOGARITHMS[base](np.maximum(doubles(input), floor))
    return out if span is None or not out.size else np.maximum(out, out.max() - span)


def _is_htk(scale: str) -> bool:
    if scale not in ("slaney", "htk"):
        raise ValueError(f"scale is {scale!r}; it takes 'slaney' or 'htk'")
    return scale == "htk"
