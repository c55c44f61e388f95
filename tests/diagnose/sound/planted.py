"""Diagnose two signals, or two runs with records."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import firstdiff as fd
from firstdiff.schema import Diagnosis

RATE = 24_000


def heard(folder: Path, reference: np.ndarray, candidate: np.ndarray, *rates: int) -> tuple[Diagnosis, ...]:
    """Both sides are taps that say they are sound."""
    ours, theirs = rates or (RATE, RATE)
    for name, values, rate in (("ref", reference, ours), ("cand", candidate, theirs)):
        with fd.record(folder / f"{name}.trace") as recorder:
            recorder.tap("wave", values, sample_rate=rate)
    return explained(folder)


def explained(folder: Path) -> tuple[Diagnosis, ...]:
    found = fd.compare(folder / "ref.trace", folder / "cand.trace")
    failed = [note.text for note in found.notes if "failed" in note.text or "could not be tested" in note.text]
    assert not failed, failed
    return found.diagnosis


def noisy(sound: np.ndarray, level: float = 1e-7) -> np.ndarray:
    draws = np.random.default_rng(1).standard_normal(sound.shape)
    return (sound + level * np.std(sound) * draws).astype(np.float32)
