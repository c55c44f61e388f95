"""Short-time Fourier transforms, their inverse, and window functions."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from firstdiff.ops.arrays import doubles
from firstdiff.ops.operator import operator

_PAD_MODES = {"reflect": "reflect", "constant": "constant", "replicate": "edge", "circular": "wrap"}


@operator
def hann_window(length: int, *, periodic: bool = True) -> Any:
    """A raised cosine; periodic ones (for spectra) leave out the last zero, symmetric ones have it."""
    return _cosine_window(length, 0.5, periodic)


@operator
def hamming_window(length: int, *, periodic: bool = True) -> Any:
    """A raised cosine that does not reach 0."""
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
    """The spectrum of each frame, complex, `[..., bins, frames]`.

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
    """The sound of a spectrum `[..., bins, frames]`: frames overlapped, and divided by the windows they went through.

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
    """The sum of frames `[..., frames, size]`, each a hop further than the one before.

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
    """By pieces of one hop: as many additions as a frame has pieces."""
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
