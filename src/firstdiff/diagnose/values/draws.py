"""Hypothesis: another draw of the same random numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Fit, Hypothesis, Specific
from firstdiff.diagnose.values.sides import Sides
from firstdiff.diagnose.values.uniform_noise import gumbel_draw, is_gumbel_draw
from firstdiff.dtypes import doubles

_LEAST = 64
_SIGMAS = 4.0
_BELOW_OTHERS = 0.2  # of the difference counts as left: an order or a shift of the same numbers comes first
_NAMES = re.compile(r"noise|latent|gumbel|rand|sampl|draw|gauss|epsilon|x_t\b", re.IGNORECASE)
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
    _Kind("uniform numbers from 0 to 1", 0.5, 12**-0.5, 1.8, 0.9),
    _Kind("uniform numbers from -1 to 1", 0.0, 3**-0.5, 1.8, 0.9),
    _Kind("Gumbel noise", 0.5772, 1.2825, 5.4, 1800.0),
)


class SamplingDraw(Hypothesis):
    """Random numbers, or tokens chosen at random, are another draw.

    Another seed, another generator, another order of draws, or a draw where the reference takes the likeliest. Nothing
    is wrong with the model, and nothing after this can agree.

    Tested on numbers that nothing leads to: both sides are draws of one distribution, and have nothing to do with each
    other. On tokens: what they are drawn from agrees, and they do not. Use one draw for both sides.
    On tokens drawn with recorded Gumbel noise: noise and probabilities agree, and another token is chosen.
    """

    code = "sampling.draw"

    def applies(self, case: Case) -> bool:
        return case.comparable and case.candidate.size > 0

    def test(self, case: Case) -> Iterator[Explanation]:
        if dtypes.kind_of(case.candidate_dtype) == "int":
            yield from self._by_gumbel(case)
            yield from self._of_tokens(case)
        elif Sides.of(case).real and not case.operations and _from_nowhere(case):
            yield from self._of_numbers(case)

    def _of_numbers(self, case: Case) -> Iterator[Explanation]:
        reference, candidate = case.expected, case.candidate
        kind = next((kind for kind in _KINDS if _is_draw(reference, kind) and _is_draw(candidate, kind)), None)
        if kind is None or abs(_correlation(reference, candidate)) > _SIGMAS / reference.size**0.5:
            return
        yield Explanation(
            cause=self.code,
            fit=Fit(float("inf"), _BELOW_OTHERS * case.unexplained.rms, float("inf")),
            evidence=f"both sides are {kind.name} with the mean and deviation of such, and their correlation is "
            f"{_correlation(reference, candidate):.2g}",
            fix=_FIX,
            specific=Specific.SYMPTOM,
            implies=("values.uncorrelated",),
            doubt=_OF_NUMBERS,
        )

    def _by_gumbel(self, case: Case) -> Iterator[Explanation]:
        """Ids that the reference draws from probabilities and noise which agree on both sides."""
        agreeing = [
            (both.key, doubles(both.candidate))
            for both in case.before()
            if both.candidate is not None and not both.differs
        ]
        for (noise, gumbel), (chosen_by, probs) in permutations(agreeing, 2):
            if not is_gumbel_draw(case.expected, probs, gumbel):
                continue
            wrong = int(np.count_nonzero(gumbel_draw(probs, gumbel) != case.candidate))
            yield Explanation(
                cause=self.code,
                fit=Fit(0.0, 0.0, float("inf")),
                evidence=f"{chosen_by} and {noise} agree, and the reference takes the largest of log({chosen_by}) plus "
                f"{noise}; {wrong} of {case.candidate.size} ids of the candidate are another one",
                fix="draw as the reference does: the largest of the log-probabilities plus the noise",
                implies=("ids.mismatch", "vocab.mismatch", "offset.constant"),
                doubt=_OF_NUMBERS,
            )
            return

    def _of_tokens(self, case: Case) -> Iterator[Explanation]:
        for both in case.sources:
            if both.reference is None or both.candidate is None or both.differs:
                continue
            scores = doubles(both.candidate)
            reference, candidate = (_of_scores(side, scores) for side in (case.expected, case.candidate))
            if reference is None or candidate is None:
                continue
            likeliest = [bool((ids == scores.argmax(axis=-1)).all()) for ids in (reference, candidate)]
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
    """True if the row is computed from no other: a model input, or named like one where no inputs are recorded."""
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
    """True if the chosen scores rank higher than a choice independent of the scores would."""
    above = np.count_nonzero(scores > chosen, axis=-1)
    surprise = -np.log((above + 1.0) / scores.shape[-1])
    return bool(float(surprise.sum()) > surprise.size + 2.0 * surprise.size**0.5 + 1.0)


def _is_draw(values: np.ndarray, kind: _Kind) -> bool:
    """True if mean, standard deviation and kurtosis are those of draws of this kind."""
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
