"""Hypotheses: audio with clicks, or with a gain that ripples from frame to frame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.audio.artifacts import LONGEST, gain_profile
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific
from firstdiff.diagnose.sound.waves import Waves, is_sound

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


class AudioClicks(Hypothesis):
    """There are clicks; apart from them the sound is the reference's.

    Chunks that do not join, a buffer that ran empty, samples that wrapped round where they should have been clipped.

    Tested by taking out three samples on either side of every click. Regular clicks are `audio.window`.
    """

    code = "audio.clicks"

    def applies(self, case: Case) -> bool:
        audio = case.row.audio
        return is_sound(case) and audio is not None and audio["clicks"]["count"] > 0

    def test(self, case: Case) -> Iterator[Explanation]:
        waves = Waves.of(case)
        if not waves.audio["delay"] or waves.audio["delay"]["samples"]:
            return
        predicted, taken = without_clicks(waves)
        fit = waves.fit(predicted)
        clicks = waves.audio["clicks"]
        places = ", ".join(f"{place:,}" for place in clicks["positions"][:4])
        more = " …" if clicks["count"] > 4 else ""
        yield Explanation(
            cause=self.code,
            fit=fit,
            evidence=f"{clicks['count']:,} clicks, at samples {places}{more}: without them {case.falls_to(fit)}",
            fix="look at what happens at these samples: chunks that are joined, buffers, integers that wrap round",
            assumed=taken,
            specific=Specific.SYMPTOM,
        )


_EDGE_PERIODS = 8


class AudioWindow(Hypothesis):
    """Overlapped frames do not add up: the gain repeats itself every hop, or there is a click at every seam.

    The synthesis window is another than that of the analysis, symmetric instead of periodic, or missing; the sum is
    not divided by the overlapped windows; window and hop do not fit each other.

    Tested by a gain of its own for every place within the period: what is left once that is taken out. The first
    and last frames, where fewer overlap, are not judged. Clicks are tested by taking them out.
    """

    code = "audio.window"

    def applies(self, case: Case) -> bool:
        audio = case.row.audio
        return is_sound(case) and audio is not None and bool(audio["ripple"] or audio["clicks"]["period"])

    def test(self, case: Case) -> Iterator[Explanation]:
        waves = Waves.of(case)
        delay = waves.audio["delay"]
        if delay is None or delay["samples"]:
            return
        if waves.audio["ripple"]:
            yield from self._rippling(case, waves, int(waves.audio["ripple"]["period"]))
        period = waves.audio["clicks"]["period"]
        if period and period <= LONGEST and not waves.audio["ripple"]:
            yield from self._clicking(case, waves, int(period))

    def _rippling(self, case: Case, waves: Waves, period: int) -> Iterator[Explanation]:
        edge = _EDGE_PERIODS * period
        if len(waves.candidate) < 3 * edge:
            return
        predicted = waves.candidate.copy()
        inner = slice(edge, len(predicted) - edge)
        for channel in range(predicted.shape[1]):
            reference, candidate = waves.expected[inner, channel], waves.candidate[inner, channel]
            gains = 1.0 + gain_profile(reference, candidate - reference, period)
            predicted[inner, channel] = reference * np.resize(gains, len(reference))
        fit = waves.fit(predicted)
        ripple = waves.audio["ripple"]
        depth = ripple["high_db"] - ripple["low_db"]
        yield Explanation(
            cause=self.code,
            fit=fit,
            evidence=f"with a gain that repeats every {period:,} samples ({depth:.2g} dB deep) {case.falls_to(fit)}",
            fix=f"use the analysis window for the synthesis too, divide by the sum of its squares, hop {period:,}",
            assumed=period * predicted.shape[1] + 2 * edge,
            implies=("scale.constant", "audio.gain"),
            predicted=waves.as_recorded(predicted),
        )

    def _clicking(self, case: Case, waves: Waves, period: int) -> Iterator[Explanation]:
        predicted, taken = without_clicks(waves)
        fit = waves.fit(predicted)
        count = waves.audio["clicks"]["count"]
        yield Explanation(
            cause=self.code,
            fit=fit,
            evidence=f"a click every {period:,} samples, {count:,} in all: without them {case.falls_to(fit)}",
            fix=f"look at window and hop of the overlapped frames: a hop is {period:,} samples, or a part of it",
            assumed=taken,
            specific=Specific.FORM,
            doubt=0.15,
            implies=("audio.clicks",),
        )


AUDIO_CLICKS: Final = AudioClicks()
AUDIO_WINDOW: Final = AudioWindow()
