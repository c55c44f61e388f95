"""Compare two signals: delay, gain, polarity, offset, and the residual."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from firstdiff.audio.artifacts import find_clicks, find_ripple
from firstdiff.audio.levels import (
    Agreement,
    Levels,
    level_db,
    measure_agreement,
    measure_clipping,
    measure_levels,
    shared_blocks,
    shared_range,
)
from firstdiff.audio.mel_distance import log_mel_distance
from firstdiff.audio.report import AudioReport, Clicks, Delay, Ripple, SoundInfo
from firstdiff.audio.sound import Centred, Shifted, Sound, fourier, prepare, sound_of
from firstdiff.audio.timing import Taken, find_delay, find_drift, loudest
from firstdiff.audio.words import HARDLY_DB, in_words

_EXACT_ENOUGH_DB = 120.0  # of two sounds this close, none is delayed
_PART_OF_A_SAMPLE = 0.01
_RIPPLE_FRAMES = 1 << 18
_UNLIKE_DB = 12.0
_AS_WELL_DB = 20.0


def compare_audio(
    reference: Any,
    candidate: Any,
    *,
    sample_rate: float,
    candidate_rate: float | None = None,
    axis: int | None = None,
    candidate_axis: int | None = None,
) -> AudioReport:
    """Compare two sounds.

    >>> import numpy as np
    >>> tone = np.sin(np.arange(24000) ** 1.5 / 900)
    >>> compare_audio(tone, 0.5 * tone, sample_rate=24000).verdict
    'the candidate is 6.0 dB quieter; apart from that they agree exactly'

    reference, candidate: arrays or sources of values, of one channel or of several
    sample_rate: samples a second, of both unless `candidate_rate` is given
    axis, candidate_axis: the one that counts samples; the longest if left out
    """
    fourier()
    ref = sound_of(reference, sample_rate, axis)
    cand = sound_of(candidate, sample_rate if candidate_rate is None else candidate_rate, candidate_axis)
    sides = _Side(ref), _Side(cand)
    report = _related(sides[0], sides[1])
    if ref.rate != cand.rate:
        report = _or_only_the_rate_differs(report, ref, cand)
    return replace(report, verdict=in_words(report))


class _Side:
    """A sound and what one pass over it found."""

    def __init__(self, sound: Sound) -> None:
        self.sound = sound
        self.levels = measure_levels(sound)

    def info(self) -> SoundInfo:
        sound, levels = self.sound, self.levels
        return SoundInfo(
            frames=sound.frames,
            channels=sound.channels,
            sample_rate=sound.rate,
            seconds=sound.seconds,
            peak_db=level_db(levels.peak),
            rms_db=level_db(levels.rms),
            dc=levels.mean,
            nan=levels.nan,
            inf=levels.inf,
            clipping=measure_clipping(sound, levels),
            clicks=find_clicks((block for _, block in sound.blocks()), floor=_audible(levels)),
        )


def _related(one: _Side, other: _Side) -> AudioReport:
    ready = prepare(one.sound, other.sound)
    reference, candidate = ready.reference, ready.candidate
    plain = measure_agreement(reference, candidate)
    same_size = (one.sound.frames, one.sound.channels, one.sound.rate) == (
        *(other.sound.frames, other.sound.channels, other.sound.rate),
    )
    unclear = one.levels.nan + one.levels.inf + other.levels.nan + other.levels.inf
    bare = AudioReport(
        verdict="",
        sample_rate=reference.rate,
        reference=one.info(),
        candidate=other.info(),
        identical=same_size and plain.dd == 0 and not unclear,
        snr_db=plain.snr_db if plain.rr > 0 else None,
        si_snr_db=plain.si_snr_db,
        log_mel_db=log_mel_distance(reference, candidate, *shared_range(reference, candidate)),
        reference_coverage=_coverage(reference, candidate),
        candidate_coverage=_coverage(candidate, reference),
        notes=ready.notes,
    )
    if one.levels.silent or other.levels.silent or not plain.count:
        return bare
    return _aligned(bare, reference, candidate, plain)


def _aligned(bare: AudioReport, reference: Sound, candidate: Sound, plain: Agreement) -> AudioReport:
    """With the delay taken out, then the gain, then the rest looked at."""
    levels = measure_levels(reference), measure_levels(candidate)
    delay = _no_delay(reference, plain)
    if delay is None:
        centred = Centred(reference, levels[0].mean), Centred(candidate, levels[1].mean)
        delay = find_delay(*centred, levels[0].energies)
    if delay is None:
        return replace(bare, drift=find_drift(reference, candidate, levels[0].energies))
    shifted, found, delay = _best_shift(reference, candidate, delay, levels)
    gain, polarity = found.gain, -1 if found.gain < 0 else 1
    if not gain:
        return bare
    first, last = shared_range(reference, shifted)
    clicks = find_clicks(_differences(reference, shifted, gain, found.offset), start=first, floor=_audible(levels[0]))
    report = replace(
        bare,
        delay=delay,
        gain_db=level_db(abs(gain)),
        polarity=polarity,
        dc_offset=found.offset,
        aligned_snr_db=found.si_snr_db,
        aligned_log_mel_db=log_mel_distance(reference, Centred(shifted, found.offset), first, last, abs(gain)),
        clicks=clicks,
        ripple=_ripple(reference, shifted, found, levels[0], clicks),
        reference_coverage=(last - first) / reference.frames,
        candidate_coverage=(last - first) / candidate.frames,
    )
    agreed = report.aligned_snr_db
    if agreed is None or agreed >= _UNLIKE_DB or report.ripple is not None:
        return report
    drift = find_drift(reference, candidate, levels[0].energies)
    # of two speeds, a delay that hardly fits is one of chance
    return replace(bare if drift and agreed < HARDLY_DB else report, drift=drift)


def _no_delay(reference: Sound, plain: Agreement) -> Delay | None:
    exact = plain.si_snr_db
    if exact is None or exact < _EXACT_ENOUGH_DB or plain.gain <= 0 or reference.frames < 2:
        return None
    return Delay(samples=0.0, whole=0, seconds=0.0, correlation=1.0, period=None, reach=0)


def _best_shift(
    reference: Sound, candidate: Sound, delay: Delay, levels: tuple[Levels, Levels]
) -> tuple[Sound, Agreement, Delay]:
    """By whole samples, or by the part of one as well where that makes the two agree better."""
    scale = _rough_scale(levels, delay.correlation)
    shifted: Sound = Shifted(candidate, delay.whole) if delay.whole else candidate
    found = measure_agreement(reference, shifted, scale=scale)
    whole = replace(delay, samples=float(delay.whole), seconds=delay.whole / reference.rate)
    if abs(delay.samples - delay.whole) < _PART_OF_A_SAMPLE:
        return shifted, found, whole
    finer = Shifted(candidate, delay.samples)
    better = measure_agreement(reference, finer, scale=scale)
    if better.rest < 0.5 * found.rest:
        return finer, better, delay
    return shifted, found, whole


def _rough_scale(levels: tuple[Levels, Levels], correlation: float) -> float:
    """A power of two that brings the candidate near the reference, so that the difference keeps its digits."""
    deviations = [math.sqrt(side.variance) for side in levels]
    size = 2.0 ** round(math.log2(deviations[0] / deviations[1])) if min(deviations) > 0 else 1.0
    return -size if correlation < 0 else size


def _differences(reference: Sound, shifted: Sound, gain: float, offset: float) -> Iterator[np.ndarray]:
    for _, one, other in shared_blocks(reference, shifted):
        yield (other - offset) / gain - one


def _ripple(reference: Sound, shifted: Sound, found: Agreement, levels: Levels, clicks: Clicks) -> Ripple | None:
    first, last = shared_range(reference, shifted)
    if last - first < 1024 or not found.rest:
        return None
    start, stop = loudest(reference.frames, levels.energies, _RIPPLE_FRAMES, 1)[0]
    start, stop = max(start, first), min(stop, last)
    one = reference.read(start, stop)
    rest = (shifted.read(start, stop) - found.offset) / found.gain - one
    # the channel with the most to say
    channel = int(np.argmax((rest * rest).sum(axis=0)))
    hints = [clicks.period] if clicks.period else []
    return find_ripple(one[:, channel], rest[:, channel], hints)


def _or_only_the_rate_differs(report: AudioReport, reference: Sound, candidate: Sound) -> AudioReport:
    """Return a report that ignores the stated rates if the samples agree without resampling."""
    as_they_are = _related(_Side(reference), _Side(Taken(candidate, reference.rate)))
    found, before = as_they_are.aligned_snr_db, report.aligned_snr_db
    if found is None or found < _AS_WELL_DB or (before is not None and before >= found):
        return report
    note = (
        f"the stated rates differ ({reference.rate:,.10g} Hz and {candidate.rate:,.10g} Hz) "
        "but the samples fit as they are: one of the rates is wrong"
    )
    notes = (*as_they_are.notes, note)
    return replace(as_they_are, candidate=report.candidate, identical=False, notes=notes, rates_ignored=True)


def _coverage(side: Sound, other: Sound) -> float:
    return min(side.frames, other.frames) / side.frames if side.frames else 1.0


def _audible(levels: Levels) -> float:
    """Jumps 60 dB below what is there on average drown in it."""
    return 1e-3 * math.sqrt(levels.variance)
