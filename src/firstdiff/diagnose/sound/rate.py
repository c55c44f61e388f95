"""Hypotheses: audio at another sample rate, or stretched in time at the same pitch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any, Final

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Fit, Hypothesis

_USUAL = (80, 100, 110, 120, 128, 160, 200, 220, 240, 256, 275, 276, 300, 320, 441, 480, 512, 600, 640, 882, 960, 1024)
_NEAR = 0.003
_DOUBT = 0.1


class AudioHop(Hypothesis):
    """Frames are set down at another hop length: the sound runs slower or faster at the same pitch.

    The hop of the synthesis is not that of the analysis, or not the one that the model was trained with.

    Tested by the loudness in bands of frequency: whether it goes up and down together on both sides once time is
    stretched, and does not without. That relates loudness, not samples, so no residual is given.
    """

    code = "audio.hop"

    def applies(self, case: Case) -> bool:
        drift = (case.row.audio or {}).get("drift")
        return bool(drift and drift["pitch_kept"])

    def test(self, case: Case) -> Iterator[Explanation]:
        assert case.row.audio is not None, "only what is sound is asked"
        drift = case.row.audio["drift"]
        stretch, likeness = float(drift["stretch"]), float(drift["likeness"])
        hops = _hops(stretch, case.attrs.get("hop_length"))
        yield Explanation(
            cause=self.code,
            fit=relative_fit(case, 1.0 - likeness),
            evidence=f"stretched {stretch:.4f} times, the loudness of the bands correlates to {likeness:.3f}{hops}",
            fix=f"overlap frames at the reference's hop length, which is {1 / stretch:.4f} times the candidate's",
            assumed=1,
            doubt=_DOUBT,
        )


def relative_fit(case: Case, left: float) -> Fit:
    """Return a fit that leaves a fraction `left` of the difference, by a measure not taken sample by sample."""
    return Fit(inf, left * (case.unexplained.rms if case.comparable else 1.0), inf)


def _hops(stretch: float, recorded: object) -> str:
    if isinstance(recorded, int):
        return f"; the hop length recorded is {recorded}, the candidate's would be {recorded * stretch:.0f}"
    pairs = [(abs(one / other / stretch - 1), one, other) for one in _USUAL for other in _USUAL if one != other]
    apart, candidate, reference = min(pairs)
    return f", as with a hop of {candidate} instead of {reference}" if apart < _NEAR else ""


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


AUDIO_HOP: Final = AudioHop()
AUDIO_SAMPLE_RATE: Final = AudioSampleRate()
