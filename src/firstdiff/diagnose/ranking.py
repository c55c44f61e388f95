"""Rank explanations and compute their confidence: best fit, fewest assumptions and most specific first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf, isfinite, log10

from firstdiff.diagnose.fit import Fit
from firstdiff.diagnose.hypothesis import Explanation, Specific
from firstdiff.schema import Diagnosis

MOST_SHOWN = 5
# an explanation that does not reach the floor must take away this part of the difference to be told at all
_WORTH_TELLING = 0.5
# how often an explanation of each kind that fits, and has no rival, is the cause
_TRUST = {Specific.SYMPTOM: 0.8, Specific.FORM: 0.88, Specific.MISTAKE: 0.98}
_TRUST_PARTLY = 0.6
# every mistake has a form that fits as well; that a mistake fits where only the form is true is rare
_AGAINST_RIVALS = {Specific.SYMPTOM: 1.0, Specific.FORM: 4.0, Specific.MISTAKE: 100.0}
_DIGITS = 2
# what is less likely than this explains nothing
_LEAST_CONFIDENCE = 0.05
# beside one that explains everything, and is this likely, what explains a part says nothing
_SETTLED = 0.8


def ranked(found: Iterable[Explanation], unexplained: Fit, elements: int) -> tuple[Explanation, ...]:
    """Those worth telling, one for each cause, the likeliest first; what a better one implies is left out.

    unexplained: what there was to explain
    elements: how many values the fits are over
    """
    best: dict[str, Explanation] = {}
    implied: dict[str, dict[str, None]] = {}
    for one in found:
        if not _worth_telling(one, unexplained):
            continue
        if one.fit.reaches_floor:
            implied.setdefault(one.cause, {}).update(dict.fromkeys(one.implies))
        if one.cause not in best or _key(one, elements) < _key(best[one.cause], elements):
            best[one.cause] = one
    best |= {cause: replace(best[cause], implies=tuple(names)) for cause, names in implied.items()}
    told = [one for one in best.values() if not any(_covers(other, one) for other in best.values())]
    return tuple(sorted(told, key=lambda one: _key(one, elements)))


def _covers(better: Explanation, one: Explanation) -> bool:
    """True if `better` implies the more general explanation `one`, and fits at least as well."""
    return (
        one.cause in better.implies and better.cause not in one.implies and better.fit.worst <= max(1.0, one.fit.worst)
    )


def as_diagnoses(order: Sequence[Explanation], unexplained: Fit, elements: int) -> tuple[Diagnosis, ...]:
    """Convert ranked explanations to diagnoses, without the unlikely ones."""
    sure = [(one, round(confidence(one, order, unexplained, elements), _DIGITS)) for one in order]
    likely = [(one, confidence) for one, confidence in sure if confidence >= _LEAST_CONFIDENCE]
    if likely and likely[0][0].fit.reaches_floor and likely[0][1] >= _SETTLED:
        likely = [(one, confidence) for one, confidence in likely if one.fit.reaches_floor]
    return tuple(
        Diagnosis(
            cause=one.cause,
            confidence=confidence,
            evidence=one.evidence,
            fix=one.fix,
            residual=one.fit.max_abs if isfinite(one.fit.max_abs) else None,
            implies=one.implies,
        )
        for one, confidence in likely[:MOST_SHOWN]
    )


def confidence(one: Explanation, order: Sequence[Explanation], unexplained: Fit, elements: int) -> float:
    """Return the confidence of an explanation: by its kind, less for rivals, fitted parameters and a small effect."""
    if not one.fit.reaches_floor:
        return _TRUST_PARTLY * explained(one.fit, unexplained) * (1.0 - one.doubt) / (1 + order.index(one))
    sure = _TRUST[one.specific] * (1.0 - one.doubt)
    sure *= 1.0 - min(0.5, one.assumed / max(elements, 1))
    sure *= 1.0 - 0.5 / max(1.0, _gain(one.fit, unexplained))
    weight = _weight(one)
    return sure * weight / sum(_weight(other) for other in order if other.fit.reaches_floor)


def explained(fit: Fit, unexplained: Fit) -> float:
    """The part of the difference that a fix takes away, 0 to 1."""
    if unexplained.rms == 0:
        return 0.0
    if unexplained.rms == inf:
        return 1.0 if isfinite(fit.rms) else 0.0
    return max(0.0, 1.0 - fit.rms / unexplained.rms)


def _worth_telling(one: Explanation, unexplained: Fit) -> bool:
    if one.fit.reaches_floor:
        return not unexplained.reaches_floor
    return explained(one.fit, unexplained) >= _WORTH_TELLING


def _gain(fit: Fit, unexplained: Fit) -> float:
    """Return the factor by which the difference shrinks, down to the floor at most."""
    return unexplained.worst / max(fit.worst, 1.0)


def _weight(one: Explanation) -> float:
    """Return the weight of an explanation against its rivals."""
    free = 1.0 + log10(1.0 + one.assumed)
    return _AGAINST_RIVALS[one.specific] * (1.0 - one.doubt) / free / (0.5 + one.fit.rms)


def _key(one: Explanation, elements: int) -> tuple[bool, int, float, float]:
    if not one.fit.reaches_floor:
        return True, 0, one.fit.rms * (1.0 + one.assumed / max(elements, 1)), -float(one.specific)
    return False, -int(one.specific), -_weight(one), one.fit.rms
