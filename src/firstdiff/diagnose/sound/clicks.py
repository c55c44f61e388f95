"""Hypothesis: audio with irregular clicks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific
from firstdiff.diagnose.sound.seams import without_clicks
from firstdiff.diagnose.sound.waves import Waves, is_sound


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


HYPOTHESIS: Final = AudioClicks()
