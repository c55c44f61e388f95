"""Hypotheses: audio shifted in time, or with another gain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from firstdiff.audio import Sound, sound_of
from firstdiff.audio.sound import Shifted, sample_axis
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Fit, Hypothesis


def is_sound(case: Case) -> bool:
    """True if both sides of the row are audio of the same shape, sample rate and channels."""
    audio = case.row.audio
    if audio is None or not case.comparable:
        return False
    reference, candidate = audio["reference"], audio["candidate"]
    return all(reference[field] == candidate[field] for field in ("sample_rate", "channels"))


@dataclass(frozen=True, slots=True)
class Waves:
    """Both sides of an audio case as [frames, channels], with the audio report as plain data."""

    case: Case
    expected: np.ndarray
    candidate: np.ndarray
    audio: Mapping[str, Any]
    axis: int

    @staticmethod
    def of(case: Case) -> Waves:
        """Return the waves of a case, read once for all hypotheses."""
        return case.derived(_waves_of)

    @property
    def rate(self) -> float:
        return float(self.audio["sample_rate"])

    def as_recorded(self, frames: np.ndarray) -> np.ndarray:
        """Return frames in the layout of the case."""
        shape = list(self.case.candidate.shape)
        moved = [shape[self.axis], *(size for place, size in enumerate(shape) if place != self.axis)]
        return np.moveaxis(frames.reshape(moved), 0, self.axis)

    def fit(self, frames: np.ndarray) -> Fit:
        """Return the fit of a prediction, with differences up to a quantisation step of the file taken for none."""
        step = 1.5 * max(_step(attrs) for attrs in (self.case.attrs, self.case.candidate_attrs))
        near = np.abs(frames - self.candidate) <= step
        return self.case.fit(self.as_recorded(np.where(near, self.candidate, frames)))

    @property
    def gain(self) -> float | None:
        """Signed least-squares factor of the candidate, after alignment."""
        found = self.audio["gain_db"]
        return None if found is None else float(self.audio["polarity"] * 10 ** (found / 20))


def _waves_of(case: Case) -> Waves:
    assert case.row.audio is not None, "only what is sound is asked"
    axis = sample_axis(case.candidate.shape)
    return Waves(case, _frames(case.expected, axis), _frames(case.candidate, axis), case.row.audio, axis)


def shifted(frames: np.ndarray, later: int, filled: np.ndarray) -> np.ndarray:
    """Shift frames later or earlier, with frames of another sound in the gap."""
    moved = filled.copy()
    if later >= 0:
        moved[later:] = frames[: len(frames) - later]
    else:
        moved[:later] = frames[-later:]
    return moved


def _frames(values: np.ndarray, axis: int) -> np.ndarray:
    if not values.ndim:
        return values.reshape(1, 1)
    count = values.shape[axis]
    return np.moveaxis(values, axis, 0).reshape(count, prod(values.shape) // max(count, 1))


def _step(attrs: Mapping[str, Any]) -> float:
    """Return the quantisation step of a WAV file's encoding; 0 for floats."""
    bits = {"PCM_U8": 8, "PCM_16": 16, "PCM_24": 24, "PCM_32": 32}.get(str(attrs.get("encoding")))
    return 0.0 if bits is None else 2.0 ** (1 - bits)


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
    # at the ends the interpolation lacks neighbours
    edge = min(round(abs(samples)) + 128, len(found))
    found[:edge] = np.nan
    found[len(found) - edge :] = np.nan
    return found


def _with_gain(waves: Waves, moved: np.ndarray, whole: int) -> tuple[Fit, float, np.ndarray]:
    """Fit the shifted sound, scaled if that helps; unknown samples are taken from the candidate."""
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


_LEAST = 1e-4
_NAMED = {
    32768.0: "16-bit samples that were not divided by 32768",
    32767.0: "16-bit samples that were not divided by 32767",
    1 / 32768.0: "a division by 32768 too many",
    1 / 32767.0: "a division by 32767 too many",
}
_USUAL_PEAKS = (1.0, 0.99, 0.95, 0.9, 0.5)


class AudioGain(Hypothesis):
    """The sound is the reference's, louder or quieter.

    A volume that is set twice or not at all, a normalisation to the peak or to a loudness, samples of 16 bits that were
    not divided by 32768.

    Tested by the gain that fits the whole sound best, by least squares. Look for what multiplies the waveform
    last.
    """

    code = "audio.gain"

    def applies(self, case: Case) -> bool:
        return is_sound(case) and Waves.of(case).gain is not None

    def test(self, case: Case) -> Iterator[Explanation]:
        waves = Waves.of(case)
        gain = _least_squares(waves.expected, waves.candidate)
        if gain is None or gain <= 0 or abs(gain - 1) < _LEAST or waves.audio["delay"]["whole"]:
            return
        predicted = gain * waves.expected
        fit = waves.fit(predicted)
        decibel = 20 * np.log10(gain)
        name = _name(gain, float(np.abs(waves.candidate).max(initial=0.0)))
        yield Explanation(
            cause=self.code,
            fit=fit,
            evidence=f"{decibel:+.2f} dB ({gain:.6g} times){f', {name}' if name else ''}: {case.falls_to(fit)}",
            fix=f"take out the gain of {decibel:+.2f} dB: look for what scales the waveform last",
            assumed=1,
            implies=("scale.constant", "scale.channel", "scale.row", "op.skipped"),
            predicted=waves.as_recorded(predicted),
        )


def _least_squares(reference: np.ndarray, candidate: np.ndarray) -> float | None:
    good = np.isfinite(reference) & np.isfinite(candidate)
    energy = float(np.sum(reference[good] ** 2))
    return float(np.sum(reference[good] * candidate[good])) / energy if energy > 0 else None


def _name(gain: float, peak: float) -> str | None:
    for factor, words in _NAMED.items():
        if abs(gain / factor - 1) < 1e-5:
            return f"as of {words}"
    if any(abs(peak - usual) < 1e-6 for usual in _USUAL_PEAKS):
        return f"which brings the peak to {peak:.2g}, as a normalisation does"
    return None


AUDIO_DELAY: Final = AudioDelay()
AUDIO_GAIN: Final = AudioGain()
