"""Hypothesis: audio shifted in time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.audio import Sound, sound_of
from firstdiff.audio.sound import Shifted
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Fit, Hypothesis
from firstdiff.diagnose.sound.waves import Waves, is_sound, shifted

_LEAST_GAIN = 1e-3


class AudioDelay(Hypothesis):
    """The sound is the reference's, some samples late or early.

    Frames that are not centred (half a window), padding that was not cut off, a filter or a resampler whose own delay
    was not taken out, a chunk of a stream too many.

    Tested by the delay at which the two correlate best, the gain beside it; parts of a sample are interpolated. What
    lies before the first or after the last sample of the reference is not judged.
    """

    code = "audio.delay"

    def applies(self, case: Case) -> bool:
        return is_sound(case) and bool((Waves.of(case).audio["delay"] or {}).get("samples"))

    def test(self, case: Case) -> Iterator[Explanation]:
        waves = Waves.of(case)
        samples = float(waves.audio["delay"]["samples"])
        if abs(samples) > 0.75 * len(waves.candidate):
            return
        moved = _moved(waves, samples)
        fit, gain, predicted = _with_gain(waves, moved, round(samples))
        amount = f"{abs(samples):,.0f}" if samples == round(samples) else f"{abs(samples):,.2f}"
        when = "late" if samples > 0 else "early"
        beside = f" and {20 * np.log10(abs(gain)):+.2f} dB off" if abs(abs(gain) - 1) > _LEAST_GAIN else ""
        text = f"{amount} samples ({1000 * abs(samples) / waves.rate:.3g} ms) {when}{beside}: {case.falls_to(fit)}"
        yield Explanation(
            cause=self.code,
            fit=fit,
            evidence=f"the candidate is {text}",
            fix=f"{'cut off' if samples > 0 else 'add'} {amount} samples in front: {_likely(abs(samples))}",
            assumed=1 + bool(beside) + round(abs(samples)) * waves.candidate.shape[1],
            implies=("shift.sequence",),
            predicted=waves.as_recorded(predicted),
        )


def _moved(waves: Waves, samples: float) -> np.ndarray:
    if samples == round(samples):
        return shifted(waves.expected, round(samples), np.full_like(waves.expected, np.nan))
    sound: Sound = Shifted(sound_of(waves.expected, waves.rate, 0), -samples)
    found = sound.raw(0, len(waves.expected))
    # the interpolation needs what is not there at the ends
    edge = min(round(abs(samples)) + 128, len(found))
    found[:edge] = np.nan
    found[len(found) - edge :] = np.nan
    return found


def _with_gain(waves: Waves, moved: np.ndarray, whole: int) -> tuple[Fit, float, np.ndarray]:
    """The fit of the moved sound, scaled if that helps; what is not known of it is as the candidate has it."""
    known = np.isfinite(moved) & np.isfinite(waves.candidate)
    energy = float(np.sum(moved[known] ** 2))
    gain = float(np.sum(moved[known] * waves.candidate[known])) / energy if energy else 1.0
    best: tuple[Fit, float, np.ndarray] | None = None
    for factor in (1.0, gain):
        predicted = np.where(known, factor * moved, waves.candidate)
        if whole > 0 and not np.any(waves.candidate[:whole]):
            predicted[:whole] = 0.0
        fit = waves.fit(predicted)
        if best is None or (fit.rms < 0.5 * best[0].rms and not best[0].reaches_floor):
            best = fit, factor, predicted
    assert best is not None, "two factors were tried"
    return best


def _likely(samples: float) -> str:
    size = round(samples)
    if size >= 32 and size & (size - 1) == 0:
        return f"that is half a window of {2 * size:,}, or a hop: frames that are centred on one side only"
    return "look at padding, at the delay of filters and at what is trimmed"


HYPOTHESIS: Final = AudioDelay()
