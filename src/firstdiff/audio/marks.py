"""Recognise audio tensors: WAV files, taps with a sample rate, dims that name samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from firstdiff.audio.comparison import compare_audio
from firstdiff.audio.picture import picture
from firstdiff.audio.report import AudioReport
from firstdiff.audio.sound import Sound, TensorSound, sample_axis
from firstdiff.errors import UsageError
from firstdiff.trace import Tensor

ASSUMED_RATE = 16_000.0
_RATES = ("sample_rate", "sampling_rate", "samplerate", "sr")
_DIMS = frozenset({"sample", "samples", "wave", "waveform", "audio"})
_MOST_CHANNELS = 32


@dataclass(frozen=True, slots=True)
class Marked:
    """A tensor that is sound; `rate` is None where its record does not say."""

    rate: float | None
    axis: int


def marked(tensor: Tensor) -> Marked | None:
    """Return the rate and sample axis of a tensor marked as audio by `audio=True`, its dims, or a rate and its shape.

    A sample rate in the attributes of an operation is a setting of it, and does not mark its output.
    """
    source, record = tensor.source, tensor.record
    if source is None or source.dtype.kind in "cbOSU" or record.attrs.get("audio") is False:
        return None
    rate = _rate(record.attrs)
    axis = _named_axis(record.dims, len(source.shape))
    if axis is not None:
        return Marked(rate, axis)
    axis = sample_axis(source.shape)
    if record.attrs.get("audio") is True:
        return Marked(rate, axis)
    fits = len(source.shape) > 0 and prod(source.shape) <= _MOST_CHANNELS * source.shape[axis]
    return Marked(rate, axis) if rate is not None and record.op is None and fits else None


@dataclass(frozen=True, slots=True)
class SoundPair:
    """Two tensors taken as sound; a side that is not marked has the rate of the other."""

    reference: Sound
    candidate: Sound
    assumed_rate: bool

    @classmethod
    def of(cls, reference: Tensor, candidate: Tensor) -> SoundPair | None:
        """None where neither is marked as sound, or one cannot be."""
        ref, cand = marked(reference), marked(candidate)
        if (ref is None and cand is None) or _never_sound(reference) or _never_sound(candidate):
            return None
        rates = [side.rate for side in (ref, cand) if side is not None and side.rate is not None]
        usual = rates[0] if rates else ASSUMED_RATE
        sounds = [
            TensorSound(tensor.values(), (side.rate if side else None) or usual, side.axis if side else None)
            for tensor, side in ((reference, ref), (candidate, cand))
        ]
        return cls(sounds[0], sounds[1], not rates)


def compare_marked(reference: Tensor, candidate: Tensor) -> AudioReport | None:
    """The report on two tensors of which at least one is marked as sound; None where neither is."""
    pair = SoundPair.of(reference, candidate)
    if pair is None:
        return None
    rates = pair.reference.rate, pair.candidate.rate
    report = compare_audio(pair.reference, pair.candidate, sample_rate=rates[0], candidate_rate=rates[1])
    if not pair.assumed_rate:
        return report
    note = f"no sample rate is recorded: times and mels are for {ASSUMED_RATE:,.0f} Hz"
    return replace(report, notes=(*report.notes, note), verdict=f"{report.verdict}; {note}")


def picture_of(reference: Tensor, candidate: Tensor, title: str | None = None) -> bytes:
    """The picture of two tensors of which at least one is marked as sound."""
    pair = SoundPair.of(reference, candidate)
    if pair is None:
        raise UsageError("neither side is marked as sound; record it with a sample_rate")
    rates = pair.reference.rate, pair.candidate.rate
    return picture(pair.reference, pair.candidate, sample_rate=rates[0], candidate_rate=rates[1], title=title)


def _never_sound(tensor: Tensor) -> bool:
    return tensor.source is None or tensor.source.dtype.kind in "cbOSU" or tensor.record.attrs.get("audio") is False


def _rate(attrs: Mapping[str, Any]) -> float | None:
    for name in _RATES:
        value = attrs.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0:
            return float(value)
    return None


def _named_axis(dims: str | None, rank: int) -> int | None:
    names = [name.partition("[")[0] for name in (dims or "").split()]
    found = [axis for axis, name in enumerate(names) if name.lower() in _DIMS]
    return found[0] if len(names) == rank and found else None
