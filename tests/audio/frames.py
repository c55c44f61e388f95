"""A real analysis and synthesis by overlapped frames, with whatever is wrong with it."""

from __future__ import annotations

import numpy as np

from firstdiff.ops.spectral import hann_window, istft, overlap_add, stft

SIZE = 512


def resynthesised(
    sound: np.ndarray, *, hop: int = 128, synthesis_hop: int | None = None, window: np.ndarray | None = None
) -> np.ndarray:
    """Through `stft` and overlapped frames, not divided by the windows' sum but by its mean.

    window: of the synthesis; that of the analysis, a Hann window, if left out
    """
    analysis = np.asarray(hann_window(SIZE))
    spectrum = stft(sound.astype(np.float64), analysis, n_fft=SIZE, hop_length=hop)
    frames = np.fft.irfft(spectrum.swapaxes(-1, -2), n=SIZE)
    synthesis = analysis if window is None else window
    added = np.asarray(overlap_add(frames, synthesis, hop_length=synthesis_hop or hop))
    scale = float(np.sum(analysis * synthesis)) / (synthesis_hop or hop)
    found = added[SIZE // 2 :] / scale
    return (found[: len(sound)] if synthesis_hop is None else found).astype(np.float32)


def healthy(sound: np.ndarray, hop: int = 128) -> np.ndarray:
    """There and back again, as it should be."""
    window = np.asarray(hann_window(SIZE))
    spectrum = stft(sound.astype(np.float64), window, n_fft=SIZE, hop_length=hop)
    found = istft(spectrum, window, n_fft=SIZE, hop_length=hop, length=len(sound))
    return np.asarray(found).astype(np.float32)
