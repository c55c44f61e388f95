"""Sound of another sample rate than it says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.diagnose.sound.hop import relative_fit


class AudioSampleRate(Hypothesis):
    """The samples are those of another rate: the sound runs slower or faster, pitch and all.

    The sound was not resampled, was resampled once too often, or its file states a rate that is not its own.

    Tested by taking the candidate as a sound of that rate and resampling it: it then fits the reference.
    """

    code = "audio.sample_rate"

    def applies(self, case: Case) -> bool:
        audio = case.pair.audio or {}
        drift = audio.get("drift")
        return bool(audio.get("rates_ignored") or (drift and not drift["pitch_kept"]))

    def test(self, case: Case) -> Iterator[Explanation]:
        audio = case.pair.audio
        assert audio is not None, "only what is sound is asked"
        if audio["rates_ignored"]:
            ours, theirs = (f"{audio[side]['sample_rate']:,.0f} Hz" for side in ("reference", "candidate"))
            evidence = f"sample by sample the two fit, though one states {ours} and the other {theirs}"
            fix, left = "write the rate that the samples have into the file", 0.0
        else:
            drift = audio["drift"]
            rate, snr = audio["sample_rate"] * drift["stretch"], float(drift["snr_db"])
            evidence = f"taken as {rate:,.0f} Hz, and resampled, it agrees to {snr:.0f} dB"
            fix, left = f"resample it from {rate:,.0f} to {audio['sample_rate']:,.0f} Hz", 10 ** (-snr / 20)
        yield Explanation(cause=self.code, fit=relative_fit(case, left), evidence=evidence, fix=fix, assumed=1)


HYPOTHESIS: Final = AudioSampleRate()
