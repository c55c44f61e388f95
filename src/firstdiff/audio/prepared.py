"""Bring two signals to one sample rate and number of channels, and note the conversions."""

from __future__ import annotations

from dataclasses import dataclass

from firstdiff.audio.resampled import Resampled
from firstdiff.audio.sound import Channels, Sound


@dataclass(frozen=True)
class Prepared:
    """Both sides at one rate, with as many channels; `notes` say how they came to that."""

    reference: Sound
    candidate: Sound
    notes: tuple[str, ...] = ()


def prepare(reference: Sound, candidate: Sound) -> Prepared:
    """The lower rate is compared at; a side of one channel is held against the mean of the other's."""
    notes: list[str] = []
    if reference.channels != candidate.channels:
        reference, candidate, note = _same_channels(reference, candidate)
        notes.append(note)
    if reference.rate != candidate.rate:
        reference, candidate, note = _same_rate(reference, candidate)
        notes.append(note)
    return Prepared(reference, candidate, tuple(notes))


def hertz(rate: float) -> str:
    return f"{rate:,.10g} Hz"


def _same_channels(reference: Sound, candidate: Sound) -> tuple[Sound, Sound, str]:
    fewest = min(reference.channels, candidate.channels)
    found = f"the reference has {_channels(reference)}, the candidate {_channels(candidate)}"
    mean = fewest == 1
    how = "the mean of the channels" if mean else f"the first {fewest} channels"
    ref = reference if reference.channels == fewest else Channels(reference, fewest)
    cand = candidate if candidate.channels == fewest else Channels(candidate, fewest)
    side = "candidate" if ref is reference else "reference"
    return ref, cand, f"{found}: {how} of the {side} {'was' if mean else 'were'} compared"


def _channels(sound: Sound) -> str:
    return f"{sound.channels} channel{'' if sound.channels == 1 else 's'}"


def _same_rate(reference: Sound, candidate: Sound) -> tuple[Sound, Sound, str]:
    found = f"the reference has {hertz(reference.rate)}, the candidate {hertz(candidate.rate)}"
    if reference.rate > candidate.rate:
        return Resampled(reference, candidate.rate), candidate, f"{found}: the reference was resampled"
    return reference, Resampled(candidate, reference.rate), f"{found}: the candidate was resampled"
