"""Frames of audio: find their hop length and name their window function."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_NEAR = 1e-4
_FEWEST = 3


def hop_of(frames: np.ndarray) -> int | None:
    """After how many samples the next frame of [frames, samples] starts: where one ends with what the next begins with.

    None where no hop fits, or a silent end fits several.
    """
    count, size = frames.shape
    spread = float(np.std(frames))
    if count < _FEWEST or size < 4 or not spread:
        return None
    for hop in range(1, size - 1):
        if float(np.abs(frames[1, : size - hop] - frames[0, hop:]).max()) > _NEAR * spread:
            continue
        apart = frames[1:, : size - hop] - frames[:-1, hop:]
        if float(np.abs(apart).max()) <= _NEAR * spread:
            return hop
    return None


def joined(frames: np.ndarray, hop: int) -> np.ndarray:
    """The sound that frames were cut from."""
    return np.concatenate([frames[:-1, :hop].reshape(-1), frames[-1]])


def cut(sound: np.ndarray, hop: int, size: int, count: int) -> np.ndarray:
    """Frames of a sound, NaN where it has ended."""
    starts = np.arange(count) * hop
    padded = np.concatenate([sound, np.full(max(int(starts[-1]) + size - len(sound), 0), np.nan)])
    return np.asarray(padded[starts[:, None] + np.arange(size)])


def window_named(values: np.ndarray, start: int = 0, size: int | None = None) -> str | None:
    """Return the name of a window function; None if it is not a known one.

    start, size: where the values begin in a window of this size, if they are a part of it
    """
    for name, known in _windows(size or len(values)):
        if np.allclose(values, known[start : start + len(values)], rtol=0, atol=1e-4):
            return name
    return None


def looks_like_window(values: np.ndarray) -> bool:
    """True if values rise to the middle and fall from there as window functions do, or are constant."""
    if len(values) < 4 or float(values.min()) < -1e-6 or not np.isfinite(values).all():
        return False
    middle = len(values) // 2
    slack = 1e-6 * float(values.max())
    return bool((np.diff(values[: middle + 1]) >= -slack).all() and (np.diff(values[middle + 1 :]) <= slack).all())


def _windows(size: int) -> Iterator[tuple[str, np.ndarray]]:
    yield "no window", np.ones(size)
    for kind, span in (("", size), (" (symmetric)", size - 1)):
        turn = 2 * np.pi * np.arange(size) / span
        yield f"a Hann window{kind}", 0.5 - 0.5 * np.cos(turn)
        yield f"the root of a Hann window{kind}", np.sqrt(np.maximum(0.5 - 0.5 * np.cos(turn), 0.0))
        yield f"a Hamming window{kind}", 0.54 - 0.46 * np.cos(turn)
        yield f"a Blackman window{kind}", 0.42 - 0.5 * np.cos(turn) + 0.08 * np.cos(2 * turn)
