"""Hypotheses: logarithms of another base, and power in place of amplitude."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis
from firstdiff.diagnose.values.estimates import LOG_BASES, factor_between
from firstdiff.diagnose.values.sides import Sides

_SLACK = 1e-4
_SOUND = re.compile(r"mel|spec|stft|audio|wav|log(?!it)|db|power|magnitude|fbank|fft|energy", re.IGNORECASE)

_LOGARITHM = re.compile(r"mel|spec|stft|log(?!it)|db|fbank", re.IGNORECASE)


class AudioLogBase(Hypothesis):
    """Logarithms have another base, or are decibels on one side.

    `log`, `log2`, `log10` and decibels differ by fixed factors.

    Tested by those factors. Take the reference's logarithm.
    """

    code = "audio.log_base"

    def applies(self, case: Case) -> bool:
        return case.comparable and Sides.of(case).real

    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        found = factor_between(sides.reference.reshape(-1), sides.candidate.reshape(-1))
        if found is None:
            return
        measured, error = found[0].real, found[1]
        for factor, name in LOG_BASES.items():
            if abs(measured / factor - 1) < _SLACK + 5 * error / factor:
                yield from sides.told(
                    self.code,
                    factor * sides.reference,
                    f"the candidate is {factor:.6g} times what it should be ({name})",
                    "take the logarithm the reference takes",
                    implies=("scale.constant",),
                    doubt=0.05 if _is_sound(case) else 0.3,
                )


class AudioPower(Hypothesis):
    """One side has powers, the other amplitudes.

    A spectrogram of squares, or of magnitudes; after a logarithm, twice the value.

    Tested by the square and the root of what the candidate should have, and by a factor of 2 between logarithms. Use
    the exponent the reference uses.
    """

    code = "audio.power"

    def applies(self, case: Case) -> bool:
        return case.comparable and Sides.of(case).real

    @np.errstate(all="ignore")
    def test(self, case: Case) -> Iterator[Explanation]:
        sides = Sides.of(case)
        reference, candidate = sides.reference, sides.candidate
        if np.nanmin(reference, initial=0.0) >= 0 and np.nanmin(candidate, initial=0.0) >= 0:
            squares = (reference**2, "the square"), (np.sqrt(reference), "the root")
            for made, words in squares:
                yield from self._told(sides, made, f"the candidate is {words} of what it should be")
        elif _LOGARITHM.search(f"{case.name} {case.op or ''}") and case.row.audio is None:
            for factor in (2.0, 0.5):
                yield from self._told(
                    sides, factor * reference, f"the candidate is {factor:g} times the reference's logarithm"
                )

    def _told(self, sides: Sides, made: np.ndarray, words: str) -> Iterator[Explanation]:
        yield from sides.told(
            self.code,
            made,
            words,
            "use the exponent the reference uses: magnitudes or powers",
            implies=("scale.constant", "op.skipped"),
            doubt=0.05 if _is_sound(sides.case) else 0.3,
        )


def _is_sound(case: Case) -> bool:
    return bool(_SOUND.search(f"{case.name} {case.op or ''}"))


LOG_BASE: Final = AudioLogBase()
POWER: Final = AudioPower()
