"""Short-time Fourier transforms and mel spectrograms, and the calls recorded of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import sqrt
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from firstdiff.dtypes import doubles
from firstdiff.ops.arrays import operator
from firstdiff.ops.plan import Plan
from firstdiff.ops.recorded_call import Call, Row, UnrecordedError, named

_PAD_MODES = {"reflect": "reflect", "constant": "constant", "replicate": "edge", "circular": "wrap"}


@operator
def hann_window(length: int, *, periodic: bool = True) -> Any:
    """Return a raised cosine; a periodic one (for spectra) lacks the last zero of a symmetric one."""
    return _cosine_window(length, 0.5, periodic)


@operator
def hamming_window(length: int, *, periodic: bool = True) -> Any:
    """Return a raised cosine that does not reach 0."""
    return _cosine_window(length, 0.54, periodic)


@operator
def stft(
    input: np.ndarray,
    window: np.ndarray | None = None,
    *,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool = True,
) -> Any:
    """Return the spectrum of each frame, complex, `[..., bins, frames]`.

    window: of `win_length` elements, put in the middle of `n_fft`; all ones if left out
    hop_length: from one frame to the next; a quarter of `n_fft` if left out
    center: pad both ends by half of `n_fft`, in the way of `pad_mode`, so that frame t is centred at t hops
    normalized: divide by sqrt(n_fft)
    onesided: leave out the negative frequencies
    """
    x = doubles(input)
    shape = _window_of(window, n_fft, win_length)
    if center:
        edge = [(0, 0)] * (x.ndim - 1) + [(n_fft // 2, n_fft // 2)]
        x = np.pad(x, edge, mode=_PAD_MODES[pad_mode])  # type: ignore[call-overload]
    frames = sliding_window_view(x, n_fft, axis=-1)[..., :: hop_length or n_fft // 4, :] * shape
    whole = np.iscomplexobj(frames) or not onesided
    spectrum = np.fft.fft(frames) if whole else np.fft.rfft(frames)
    return spectrum.swapaxes(-1, -2) / (sqrt(n_fft) if normalized else 1.0)


@operator
def istft(
    input: np.ndarray,
    window: np.ndarray | None = None,
    *,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    center: bool = True,
    normalized: bool = False,
    length: int | None = None,
) -> Any:
    """Invert a spectrum `[..., bins, frames]`: overlap-add the frames and divide by their windows.

    Negative frequencies, if there are any, are left out.

    length: of the result, cut or filled with zeros; the other settings are those of `stft`
    """
    spectrum = doubles(input).swapaxes(-1, -2) * (sqrt(n_fft) if normalized else 1.0)
    frames = np.fft.irfft(spectrum, n=n_fft)
    shape = _window_of(window, n_fft, win_length)
    sound = overlap_add(frames, shape, hop_length=hop_length or n_fft // 4, weighted=True)
    start = n_fft // 2 if center else 0
    end = sound.shape[-1] - start if length is None else start + length
    part = sound[..., start:end]
    missing = max(0, end - start - part.shape[-1])
    return np.pad(part, [(0, 0)] * (part.ndim - 1) + [(0, missing)])


@operator
def overlap_add(
    frames: np.ndarray, window: np.ndarray | None = None, *, hop_length: int, weighted: bool = False
) -> Any:
    """Return the sum of frames `[..., frames, size]`, each a hop further than the one before.

    window: multiplies every frame
    weighted: divide by the sum of the squared windows
    """
    parts = doubles(frames)
    shape = np.ones(parts.shape[-1]) if window is None else doubles(window)
    total = _overlapped(parts * shape, hop_length)
    if not weighted:
        return total
    squares = np.broadcast_to(shape * shape, parts.shape[-2:])
    envelope = _overlapped(squares, hop_length)
    return total / np.where(envelope > 1e-11, envelope, 1.0)


def _overlapped(frames: np.ndarray, hop: int) -> np.ndarray:
    """Overlap-add in pieces of one hop: as many additions as a frame has pieces."""
    count, size = frames.shape[-2:]
    pieces = -(-size // hop)
    edge = [(0, 0)] * (frames.ndim - 1) + [(0, pieces * hop - size)]
    split = np.pad(frames, edge).reshape(*frames.shape[:-1], pieces, hop)
    total = np.zeros((*frames.shape[:-2], count + pieces - 1, hop))
    for piece in range(pieces):
        total[..., piece : piece + count, :] += split[..., piece, :]
    length = (count - 1) * hop + size if count else 0
    return total.reshape(*frames.shape[:-2], -1)[..., :length]


def _window_of(window: np.ndarray | None, n_fft: int, win_length: int | None) -> np.ndarray:
    shape = np.ones(win_length or n_fft) if window is None else doubles(window)
    before = (n_fft - len(shape)) // 2
    return np.pad(shape, (before, n_fft - len(shape) - before))


def _cosine_window(length: int, height: float, periodic: bool) -> np.ndarray:
    steps = length if periodic else max(length - 1, 1)
    wave = height - (1.0 - height) * np.cos(2 * np.pi * np.arange(length) / steps)
    return wave if length > 1 else np.ones(length)


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
    """Convert frequency to mel, `scale` "slaney" or "htk"."""
    f = np.asarray(hertz, dtype=np.float64)
    if _is_htk(scale):
        return 2595.0 * np.log10(1.0 + f / 700.0)
    beyond = _SLANEY_KNEE_MEL + np.log(np.maximum(f, _SLANEY_KNEE) / _SLANEY_KNEE) / _SLANEY_LOG_STEP
    return np.where(f < _SLANEY_KNEE, f / _SLANEY_STEP, beyond)


@operator
def mel_to_hz(mels: Any, *, scale: str = "slaney") -> Any:
    """Convert mel to frequency."""
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
    """Return triangular filters `[mels, bins]`; librosa's by default, torchaudio's with `scale="htk", norm=None`.

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
    """Return magnitudes of `stft` to a power: 1 amplitude, 2 energy, None the complex spectrum.

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
    """Apply filters `[mels, bins]` to a spectrogram `[..., bins, frames]`."""
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
    """Return the mel spectrogram `[..., mels, frames]` of a sound.

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
    """Return the logarithm of a mel spectrogram.

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


_FRAMES = ("n_fft", "hop_length", "win_length")
_SPECTROGRAM = (*_FRAMES, "center", "pad", "pad_mode", "normalized", "power")
_MEL = ("sample_rate", "n_mels", "f_min", "f_max")


def _stft(call: Call) -> Iterator[Plan]:
    if call.told("return_complex") is False:
        raise UnrecordedError(f"{call.name} gives pairs of real numbers", "call it with return_complex=True")
    arrays = {"input": call.main(), "window": call.optional("window")}
    call.needed("n_fft")
    yield Plan.of(stft, arrays, **call.read(*_FRAMES, "center", "pad_mode", "normalized", "onesided").settings)


def _istft(call: Call) -> Iterator[Plan]:
    arrays = {"input": call.main(), "window": call.optional("window")}
    call.needed("n_fft")
    yield Plan.of(istft, arrays, **call.read(*_FRAMES, "center", "normalized", "length").settings)


def _spectrogram(call: Call) -> Iterator[Plan]:
    call.needed("n_fft")
    power = call.attrs.get("power", 2.0)  # None means the complex spectrum
    settings = {**call.read(*_SPECTROGRAM).settings, "power": power}
    yield Plan.of(spectrogram, {"input": call.main(), "window": call.optional("window")}, **settings)


def _mel_scale(call: Call) -> Iterator[Plan]:
    yield Plan.of(mel_scale, {"input": call.main(), "filters": call.array("fb").T})


def _mel_spectrogram(call: Call) -> Iterator[Plan]:
    """Read a mel spectrogram: window and filters are buffers of the module; without filters their kind is open."""
    call.needed("n_fft")
    call.needed("sample_rate")
    filters = call.optional("mel_scale.fb", "fb")
    arrays = {
        "input": call.main(),
        "window": call.optional("spectrogram.window", "window"),
        "filters": None if filters is None else filters.T,
    }
    settings = call.read(*_SPECTROGRAM, *_MEL).settings
    if filters is not None:
        yield Plan.of(mel_spectrogram, arrays, **settings)
        return
    for scale, norm in product(("htk", "slaney"), (None, "slaney")):
        yield Plan.of(mel_spectrogram, arrays, scale=scale, norm=norm, assumed=("scale", "norm"), **settings)


ROWS = (
    Row(supports=named("stft"), plans=_stft, each_token_alone=False),
    Row(supports=named("istft"), plans=_istft, each_token_alone=False),
    Row(supports=named("Spectrogram"), plans=_spectrogram, each_token_alone=False),
    Row(supports=named("MelScale"), plans=_mel_scale, each_token_alone=False),
    Row(supports=named("MelSpectrogram"), plans=_mel_spectrogram, each_token_alone=False),
)
