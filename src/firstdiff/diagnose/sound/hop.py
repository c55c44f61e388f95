"""Hypothesis: audio stretched in time at the same pitch."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Final

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
            fix=f"set down frames at the reference's hop length, which is {1 / stretch:.4f} times the candidate's",
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


HYPOTHESIS: Final = AudioHop()
