"""Sounds that tests compare: made up, but with the pitch, the pauses and the noise of speech."""

from __future__ import annotations

import numpy as np

RATE = 24_000


def speech(frames: int, seed: int = 0, rate: float = RATE) -> np.ndarray:
    """Twenty harmonics of a pitch that wanders, in syllables, with breath."""
    rng = np.random.default_rng(seed)
    time = np.arange(frames) / rate
    pitch = 120 + 25 * np.sin(2 * np.pi * 0.7 * time + seed) + 8 * np.sin(2 * np.pi * 3.1 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    voice = np.sum([np.sin(k * phase) / k**1.2 for k in range(1, 20)], axis=0)
    syllables = np.clip(np.sin(2 * np.pi * 2.3 * time + seed) + 0.4 * np.sin(2 * np.pi * 0.9 * time), 0.02, 1)
    return (syllables * (0.15 * voice + 0.01 * rng.standard_normal(frames))).astype(np.float32)


def noise(frames: int, seed: int = 0, channels: int | None = None) -> np.ndarray:
    shape = frames if channels is None else (frames, channels)
    return (0.1 * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def late(sound: np.ndarray, frames: int) -> np.ndarray:
    """Silence in front, the end cut off; or, for a negative number, the other way round."""
    moved = np.zeros_like(sound)
    if frames >= 0:
        moved[frames:] = sound[: len(sound) - frames]
    else:
        moved[:frames] = sound[-frames:]
    return moved
