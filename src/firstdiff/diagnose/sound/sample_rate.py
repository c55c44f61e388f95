"""Hypothesis: audio with another sample rate than stated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.diagnose.sound.hop import relative_fit

_AGREES_DB = 20.0


class AudioSampleRate(Hypothesis):
    """The samples are those of another rate: the sound runs slower or faster, pitch and all.

    The sound was not resampled, was resampled once too often, or its file states a rate that is not its own; or both
    state their rates rightly, and these differ.

    Tested by taking the candidate as a sound of that rate and resampling it: it then fits the reference.
    """

    code = "audio.sample_rate"

    def applies(self, case: Case) -> bool:
        audio = case.row.audio or {}
        drift = audio.get("drift")
        return bool(audio.get("rates_ignored") or (drift and not drift["pitch_kept"]) or _resampled(audio))

    def test(self, case: Case) -> Iterator[Explanation]:
        audio = case.row.audio
        assert audio is not None, "only what is sound is asked"
        if audio["rates_ignored"]:
            reference, candidate = (f"{audio[side]['sample_rate']:,.0f} Hz" for side in ("reference", "candidate"))
            evidence = f"sample by sample the two fit, though one states {reference} and the other {candidate}"
            fix, left = "write the rate that the samples have into the file", 0.0
        elif _resampled(audio):
            reference, candidate = (f"{audio[side]['sample_rate']:,.0f} Hz" for side in ("reference", "candidate"))
            snr = float(audio["aligned_snr_db"])
            evidence = f"resampled from {candidate} to {reference}, it agrees to {snr:.0f} dB"
            fix, left = f"give the sound out at {reference}", 10 ** (-snr / 20)
        else:
            drift = audio["drift"]
            rate, snr = audio["sample_rate"] * drift["stretch"], float(drift["snr_db"])
            evidence = f"taken as {rate:,.0f} Hz, and resampled, it agrees to {snr:.0f} dB"
            fix, left = f"resample it from {rate:,.0f} to {audio['sample_rate']:,.0f} Hz", 10 ** (-snr / 20)
        yield Explanation(cause=self.code, fit=relative_fit(case, left), evidence=evidence, fix=fix, assumed=1)


def _resampled(audio: Mapping[str, Any]) -> bool:
    """True if the sides state different rates and agree once one is resampled."""
    if not audio or audio["rates_ignored"] or audio["drift"] or audio["aligned_snr_db"] is None:
        return False
    differ = audio["reference"]["sample_rate"] != audio["candidate"]["sample_rate"]
    return bool(differ and float(audio["aligned_snr_db"]) >= _AGREES_DB)


HYPOTHESIS: Final = AudioSampleRate()
