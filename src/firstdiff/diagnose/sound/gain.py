"""Hypothesis: audio with another gain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.diagnose.sound.waves import Waves, is_sound

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


HYPOTHESIS: Final = AudioGain()
