"""Another draw of the same random numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.fit import Fit
from firstdiff.diagnose.hypothesis import Explanation, Hypothesis, Specific
from firstdiff.diagnose.values.sides import Sides
from firstdiff.dtypes import doubles

_LEAST = 64
_SIGMAS = 4.0
_BELOW_OTHERS = 0.2  # of the difference counts as left: an order or a shift of the same numbers comes first
_NAMES = re.compile(r"noise|latent|rand|sampl|draw|gauss|epsilon|x_t\b", re.IGNORECASE)
_OF_NUMBERS, _OF_TOKENS = 0.1, 0.15
_FIX = (
    "draw from the same generator with the same seed, in the same order; or record the draw of the reference and use it"
)


@dataclass(frozen=True, slots=True)
class _Kind:
    """A distribution by its moments."""

    name: str
    mean: float
    std: float
    kurtosis: float
    kurtosis_error: float


_KINDS = (
    _Kind("normal numbers", 0.0, 1.0, 3.0, 24.0),
    _Kind("even numbers from 0 to 1", 0.5, 12**-0.5, 1.8, 0.9),
    _Kind("even numbers from -1 to 1", 0.0, 3**-0.5, 1.8, 0.9),
)


class SamplingDraw(Hypothesis):
    """Random numbers, or tokens chosen at random, are another draw.

    Another seed, another generator, another order of draws, or a draw where the reference takes the likeliest. Nothing
    is wrong with the model, and nothing after this can agree.

    Tested on numbers that nothing leads to: both sides are draws of one distribution, and have nothing to do with each
    other. On tokens: what they are drawn from agrees, and they do not. Use one draw for both sides.
    """

    code = "sampling.draw"

    def applies(self, case: Case) -> bool:
        return case.comparable and case.candidate.size > 0

    def test(self, case: Case) -> Iterator[Explanation]:
        if dtypes.kind_of(case.candidate_dtype) == "int":
            yield from self._of_tokens(case)
        elif Sides.of(case).real and not case.operations and _from_nowhere(case):
            yield from self._of_numbers(case)

    def _of_numbers(self, case: Case) -> Iterator[Explanation]:
        ours, theirs = case.expected, case.candidate
        kind = next((kind for kind in _KINDS if _is_draw(ours, kind) and _is_draw(theirs, kind)), None)
        if kind is None or abs(_correlation(ours, theirs)) > _SIGMAS / ours.size**0.5:
            return
        yield Explanation(
            cause=self.code,
            fit=Fit(float("inf"), _BELOW_OTHERS * case.unexplained.rms, float("inf")),
            evidence=f"both sides are {kind.name} with the mean and deviation of such, and their correlation is "
            f"{_correlation(ours, theirs):.2g}",
            fix=_FIX,
            specific=Specific.SYMPTOM,
            implies=("values.uncorrelated",),
            doubt=_OF_NUMBERS,
        )

    def _of_tokens(self, case: Case) -> Iterator[Explanation]:
        for both in case.sources:
            if both.reference is None or both.candidate is None or both.differs:
                continue
            scores = doubles(both.candidate)
            ours, theirs = (_of_scores(side, scores) for side in (case.expected, case.candidate))
            if ours is None or theirs is None:
                continue
            likeliest = [bool((ids == scores.argmax(axis=-1)).all()) for ids in (ours, theirs)]
            who = {
                (True, False): "the candidate draws, the reference takes the likeliest",
                (False, True): "the reference draws, the candidate takes the likeliest",
            }.get((likeliest[0], likeliest[1]), "both sides draw")
            yield Explanation(
                cause=self.code,
                fit=Fit(0.0, 0.0, float("inf")),
                evidence=f"{both.key}, which these are chosen by, agrees; {who}",
                fix=_FIX,
                implies=("ids.mismatch", "vocab.mismatch", "offset.constant"),
                doubt=_OF_TOKENS,
            )
            return


def _from_nowhere(case: Case) -> bool:
    """Whether nothing leads to the row: it is given to the model, or its name says so where nothing is recorded."""
    if case.sources_guessed or case.role != "input":
        return not case.inputs and bool(_NAMES.search(case.key))
    return not case.sources


def _of_scores(ids: np.ndarray, scores: np.ndarray) -> np.ndarray | None:
    """Ids shaped like what they were chosen by, but for its last axis; None where they cannot be its."""
    if scores.ndim < 1 or scores.shape[-1] < 2 or ids.size != scores.size // scores.shape[-1]:
        return None
    shaped = ids.reshape(scores.shape[:-1])
    inside = bool(np.all((shaped >= 0) & (shaped < scores.shape[-1]) & (shaped == np.round(shaped))))
    if not inside:
        return None
    chosen = np.take_along_axis(scores, shaped[..., None].astype(np.int64), axis=-1)
    return shaped if _are_likely(scores, chosen) else None


def _are_likely(scores: np.ndarray, chosen: np.ndarray) -> bool:
    """Whether what was chosen ranks higher than numbers that know nothing of the scores would."""
    above = np.count_nonzero(scores > chosen, axis=-1)
    surprise = -np.log((above + 1.0) / scores.shape[-1])
    return bool(float(surprise.sum()) > surprise.size + 2.0 * surprise.size**0.5 + 1.0)


def _is_draw(values: np.ndarray, kind: _Kind) -> bool:
    """Whether mean, deviation and tails are those of so many draws."""
    count = values.size
    if count < _LEAST or not np.isfinite(values).all():
        return False
    mean, std = float(values.mean()), float(values.std())
    if abs(mean - kind.mean) > _SIGMAS * kind.std / count**0.5:
        return False
    if abs(std / kind.std - 1.0) > _SIGMAS * ((kind.kurtosis - 1.0) / (4.0 * count)) ** 0.5:
        return False
    tails = float(np.mean(((values - mean) / std) ** 4))
    return bool(abs(tails - kind.kurtosis) <= _SIGMAS * (kind.kurtosis_error / count) ** 0.5)


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.corrcoef(one.reshape(-1), other.reshape(-1))[0, 1])


HYPOTHESIS: Final = SamplingDraw()
