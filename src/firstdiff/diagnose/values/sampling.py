"""Hypotheses: another draw of the same random numbers, or values that belong to another step."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, permutations
from typing import Final

import numpy as np

from firstdiff import dtypes
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Fit, Hypothesis, Specific
from firstdiff.diagnose.rows import OtherCall
from firstdiff.diagnose.values.sides import Sides
from firstdiff.diagnose.values.uniform_noise import gumbel_draw, is_gumbel_draw, staggered
from firstdiff.dtypes import doubles

_FEWEST_DRAWS = 64
_SIGMAS = 4.0
_BELOW_OTHERS = 0.2  # fraction reported as left, so that a permutation or shift of the same numbers ranks first
_NAMES = re.compile(r"noise|latent|gumbel|rand|sampl|draw|gauss|epsilon|x_t\b", re.IGNORECASE)
_NUMBERS_DOUBT, _TOKENS_DOUBT = 0.1, 0.15
_DRAW_FIX = (
    "draw from the same generator with the same seed, in the same order; or record the draw of the reference and use it"
)


@dataclass(frozen=True, slots=True)
class _Distribution:
    """A distribution by its moments."""

    name: str
    mean: float
    std: float
    kurtosis: float
    kurtosis_error: float


_DISTRIBUTIONS = (
    _Distribution("normal numbers", 0.0, 1.0, 3.0, 24.0),
    _Distribution("uniform numbers from 0 to 1", 0.5, 12**-0.5, 1.8, 0.9),
    _Distribution("uniform numbers from -1 to 1", 0.0, 3**-0.5, 1.8, 0.9),
    _Distribution("Gumbel noise", 0.5772, 1.2825, 5.4, 1800.0),
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
        kind = next((kind for kind in _DISTRIBUTIONS if _is_draw(reference, kind) and _is_draw(candidate, kind)), None)
        if kind is None or abs(_correlation(reference, candidate)) > _SIGMAS / reference.size**0.5:
            return
        yield Explanation(
            cause=self.code,
            fit=Fit(float("inf"), _BELOW_OTHERS * case.unexplained.rms, float("inf")),
            evidence=f"both sides are {kind.name} with the mean and deviation of such, and their correlation is "
            f"{_correlation(reference, candidate):.2g}",
            fix=_DRAW_FIX,
            specific=Specific.SYMPTOM,
            implies=("values.uncorrelated",),
            doubt=_NUMBERS_DOUBT,
        )

    def _by_gumbel(self, case: Case) -> Iterator[Explanation]:
        """Explain ids that the reference draws from probabilities and noise which agree on both sides."""
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
                doubt=_NUMBERS_DOUBT,
            )
            return

    def _of_tokens(self, case: Case) -> Iterator[Explanation]:
        for both in case.sources:
            if both.reference is None or both.candidate is None or both.differs:
                continue
            scores = doubles(both.candidate)
            reference, candidate = (_shaped_like_choice(side, scores) for side in (case.expected, case.candidate))
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
                fix=_DRAW_FIX,
                implies=("ids.mismatch", "vocab.mismatch", "offset.constant"),
                doubt=_TOKENS_DOUBT,
            )
            return


def _from_nowhere(case: Case) -> bool:
    """True if the row is computed from no other: a model input, or named like one where no inputs are recorded."""
    if case.sources_guessed or case.role != "input":
        return not case.inputs and bool(_NAMES.search(case.key))
    return not case.sources


def _shaped_like_choice(ids: np.ndarray, scores: np.ndarray) -> np.ndarray | None:
    """Reshape ids to the leading axes of the scores they were chosen by; None if the sizes do not fit."""
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


def _is_draw(values: np.ndarray, kind: _Distribution) -> bool:
    """True if mean, standard deviation and kurtosis are those of draws of this kind."""
    count = values.size
    if count < _FEWEST_DRAWS or not np.isfinite(values).all():
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


_FARTHEST_STEP = 8
# scores are recorded just before the values derived from them
_MOST_EARLIER = 4
_SAME_WITHIN = 1e-4
_LEAST_STEPS = 3
# one step alone may be a buffer that was not written again, or chance
_ONE_STEP_DOUBT, _SEVERAL_STEPS_DOUBT = 0.3, 0.05


class ScoreStagger(Hypothesis):
    """A loop is a step ahead, or behind: each step has what belongs to the next one, or to the one before.

    A sampler asks the model with the time of the step it goes to in place of the one it comes from, counts its steps
    from 1, or uses the score of the step before. Every number is right, and one step off.

    Tested on the same tensor at the other steps: with one distance between the two sides, the candidate's are
    the reference's. Take what belongs to the step.

    In discrete diffusion scores are staggered by a formula: so many times the score, less a share of its sum, which
    keeps the sum. There the candidate has other factors: a sign, an order or a division is wrong. Use the reference's.
    """

    code = "score.stagger"

    def test(self, case: Case) -> Iterator[Explanation]:
        yield from self._by_formula(case)
        yield from self._by_step(case)

    def _by_formula(self, case: Case) -> Iterator[Explanation]:
        for earlier in islice(case.nearby.earlier(), _MOST_EARLIER):
            reference = staggered(case.reference, earlier.reference)
            candidate = staggered(case.candidate, earlier.candidate) if reference else None
            if reference is None or candidate is None:
                continue
            classes = case.reference.shape[-1]
            keeps_sum = abs(reference.factor + classes * reference.share - 1.0) <= _SAME_WITHIN
            if not keeps_sum or reference.factor - 1.0 <= _SAME_WITHIN:
                continue
            fit = case.fit(candidate.made)
            yield Explanation(
                cause=self.code,
                fit=fit,
                evidence=f"the candidate is {candidate.words} ({earlier.key}), the reference {reference.words}: "
                f"{case.falls_to(fit)}",
                fix="stagger as the reference does: take the share of the sum away first, then divide by what is kept",
                assumed=2,
                implies=("bias.missing", "offset.constant", "scale.constant"),
                doubt=_SEVERAL_STEPS_DOUBT,
                predicted=candidate.made,
            )
            return

    def _by_step(self, case: Case) -> Iterator[Explanation]:
        again = case.nearby.again()
        for other in (one for one in again if abs(one.later) <= _FARTHEST_STEP):
            fit = case.fit(other.reference)
            if not fit.reaches_floor or case.fit(case.expected).reaches_floor:
                continue
            agree, told = _others_agree(again, other.later)
            whole_loop = agree + 1 >= _LEAST_STEPS and agree == told
            if other.later < 0 and not whole_loop:
                continue  # the values of the step before, not of another one
            steps = f"{abs(other.later)} step{'s' if abs(other.later) > 1 else ''}"
            more = f", and so are the {agree} others that tell" if whole_loop else ""
            yield Explanation(
                cause=self.code,
                fit=fit,
                evidence=f"the candidate has here what the reference has at {other.key}, {steps} "
                f"{'later' if other.later > 0 else 'before'}{more}: {case.falls_to(fit)}",
                fix=f"take what belongs to the step: the loop is {steps} {'ahead' if other.later > 0 else 'behind'}",
                specific=Specific.MISTAKE if whole_loop else Specific.FORM,
                implies=("values.stale", "scale.constant", "offset.constant", "ids.mismatch", "position.offset"),
                doubt=_SEVERAL_STEPS_DOUBT if whole_loop else _ONE_STEP_DOUBT,
                predicted=other.reference,
            )


def _others_agree(again: list[OtherCall], later: int) -> tuple[int, int]:
    """Return how many other steps of the candidate equal the reference's at distance `later`, and how many have one."""
    reference = {one.later: one.reference for one in again}
    pairs = [(one.candidate, reference[one.later + later]) for one in again if one.later + later in reference]
    return sum(_same_values(candidate, wanted) for candidate, wanted in pairs), len(pairs)


def _same_values(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(
        np.abs(one - other).max(initial=0.0) <= _SAME_WITHIN * max(float(np.abs(other).max(initial=0.0)), 1e-30)
    )


SAMPLING_DRAW: Final = SamplingDraw()
SCORE_STAGGER: Final = ScoreStagger()
