"""Remove clicks from a case."""

from __future__ import annotations

import numpy as np

from firstdiff.diagnose.sound.waves import Waves

_AROUND = 3


def without_clicks(waves: Waves) -> tuple[np.ndarray, int]:
    """Return the expected samples with the candidate's own around clicks, and the number of those.

    Only as many clicks as the report lists are known; if they are regular, so are the others.
    """
    audio = waves.audio["clicks"]
    positions = np.asarray(audio["positions"], int)
    if audio["period"] and audio["count"] > len(positions):
        phases = np.unique(positions % audio["period"])
        more = np.arange(0, len(waves.candidate), audio["period"])[:, None] + phases
        positions = np.unique(np.concatenate((positions, more.reshape(-1))))
    near = np.unique((positions[:, None] + np.arange(-_AROUND, _AROUND + 1)).reshape(-1))
    near = near[(near >= 0) & (near < len(waves.candidate))]
    predicted = waves.expected.copy()
    predicted[near] = waves.candidate[near]
    return predicted, int(near.size) * predicted.shape[1]
