"""Diagnose rows: test every hypothesis and rank what fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, log10

import numpy as np

from firstdiff import plugins
from firstdiff.diagnose.case import Case
from firstdiff.diagnose.hypothesis import Explanation, Fit, Hypothesis, Specific
from firstdiff.diagnose.rows import Scene
from firstdiff.diagnose.values.precision import ROUNDING
from firstdiff.errors import ReadError
from firstdiff.locate import Located, RowGraph
from firstdiff.locate.operands import Values
from firstdiff.schema import Diagnosis, Note, NoteCode

MOST_SHOWN = 5
# explanations above the noise floor must remove this part of the difference to be reported
_WORTH_TELLING = 0.5
# confidence of an explanation of each kind that fits and has no rival
_TRUST = {Specific.SYMPTOM: 0.8, Specific.FORM: 0.88, Specific.MISTAKE: 0.98}
_TRUST_PARTLY = 0.6
# of two that fit, the more specific is preferred: every mistake also fits its own form, rarely the reverse
_AGAINST_RIVALS = {Specific.SYMPTOM: 1.0, Specific.FORM: 4.0, Specific.MISTAKE: 100.0}
_DIGITS = 2
# explanations less likely than this are dropped
_LEAST_CONFIDENCE = 0.05
# partial explanations are dropped beside a complete one that is this likely
_SETTLED = 0.8


def ranked(found: Iterable[Explanation], unexplained: Fit, elements: int) -> tuple[Explanation, ...]:
    """Return the explanations to report, one for each cause, the likeliest first, without those a better one implies.

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
    """Return the part of the difference that a fix takes away, 0 to 1."""
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


# sites diagnosed; more than this are one fault everywhere
_MOST_SITES = 12
# part of the difference the first cause must remove before a second is searched
_WORTH_GOING_ON = 0.75
# least doubt of a cause for a part of an operation where one for the whole fits
_A_PART_ALONE = 0.75
# origins that come from replaying an operation
_FOUND_ALONE = ("alone", "local")
# the second of two causes explains less and ranks below
_SECOND = 0.4


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """The causes found.

    causes: by the index of the row, the likeliest first
    left_out: rows for which there was no time
    notes: what to record where no cause was found
    """

    causes: Mapping[int, tuple[Diagnosis, ...]]
    left_out: tuple[int, ...] = ()
    notes: tuple[Note, ...] = ()


def diagnose(
    graph: RowGraph,
    sites: Sequence[int],
    *,
    hypotheses: Sequence[Hypothesis] | None = None,
    values: Values | None = None,
    known: Mapping[int, Diagnosis] | None = None,
    has_time: Callable[[], bool] = lambda: True,
) -> Diagnosed:
    """Diagnose the error at every site.

    graph: of judged rows, in the order of the reference
    sites: indices of the rows to diagnose, the most urgent first
    hypotheses: those to test; those of the hook if left out
    values: rows read so far
    known: what the layout has already told of a row
    has_time: asked before every row but the first
    """
    causes: dict[int, tuple[Diagnosis, ...]] = {}
    notes: list[Note] = []
    left_out: list[int] = []
    places = [place for place in sites if graph.rows[place].compared]
    if not places:
        return Diagnosed({})
    table: Sequence[Hypothesis] = plugins.loaded("hypotheses") if hypotheses is None else hypotheses
    scene = Scene(graph, values or Values(graph))
    for place in places:
        if causes and not has_time():
            left_out.append(place)
            continue
        examined = Examined(_cases(scene, place), table)
        told = (known or {}).get(place)
        causes[place] = examined.diagnoses((told,) if told else ())
        notes += examined.notes
    return Diagnosed(causes, tuple(left_out), tuple(notes))


def sites_of(located: Located) -> list[int]:
    """Return the rows to diagnose: the first divergence, then where errors were introduced, in order."""
    first = [located.first_divergence.pair] if located.first_divergence else []
    sites = [site.pair for site in located.divergences]
    return list(dict.fromkeys([*first, *sites]))[:_MOST_SITES]


class Examined:
    """Every hypothesis tested on one row and on the module around it."""

    def __init__(self, cases: Sequence[Case], table: Sequence[Hypothesis]) -> None:
        self._case = cases[0]
        self._around = cases[1:]
        self._table = table
        self.notes: list[Note] = []

    def diagnoses(self, known: tuple[Diagnosis, ...] = ()) -> tuple[Diagnosis, ...]:
        """The causes, the likeliest first.

        known: what the layout has already told
        """
        case = self._case
        if case.comparable and case.unexplained.reaches_floor:
            return known or self._before() or self._within_rounding()
        found = [*self._tested(case), *map(_as_explanation, known)]
        for outer in self._around:
            whole = self._of_the_whole(outer)
            if whole:  # the whole operation is wrong, and the part only with it
                found = [replace(one, doubt=max(one.doubt, _A_PART_ALONE)) for one in found]
            found += whole
        if not case.comparable:
            return as_diagnoses(ranked(found, _NOTHING_FITS, 1), _NOTHING_FITS, 1) or self._unknown()
        order = ranked(found, case.unexplained, case.candidate.size)
        if order and not order[0].fit.reaches_floor:
            order = ranked([*found, *self._second(case, order)], case.unexplained, case.candidate.size)
        return as_diagnoses(order, case.unexplained, case.candidate.size) or self._unknown()

    def _before(self) -> tuple[Diagnosis, ...]:
        """Return the causes of an input that is wrong although it is within its tolerance."""
        for source in self._case.hidden():
            found = Examined([source], self._table).diagnoses()
            if found:
                said = f"{source.key}, which goes into it, differs by less than is allowed there; in it, "
                return tuple(replace(one, evidence=said + one.evidence) for one in found)
        return ()

    def _of_the_whole(self, outer: Case) -> list[Explanation]:
        """Return mistakes in the operation around the row that explain its whole output."""
        if outer.unexplained.reaches_floor:
            return []
        return [one for one in self._tested(outer) if one.specific is Specific.MISTAKE and one.fit.reaches_floor]

    def _tested(self, case: Case) -> Iterator[Explanation]:
        for hypothesis in self._table:
            try:
                with np.errstate(all="ignore"):
                    found = list(hypothesis.test(case)) if hypothesis.applies(case) else []
                yield from found
            except ReadError as error:
                self._note("other", f"{hypothesis.code} could not be tested on {case.key}: {error}")
            except Exception as error:  # a failing plugin must not end the comparison
                kind = type(error).__name__
                self._note("other", f"The test for {hypothesis.code} failed on {case.key} ({kind}: {error})")

    def _second(self, case: Case, order: Sequence[Explanation]) -> Iterator[Explanation]:
        """Search a second cause in the rest that the best one leaves."""
        first = order[0]
        if explained(first.fit, case.unexplained) < _WORTH_GOING_ON:
            return
        predicted = first.predicted if first.operation is None else first.operation.run()
        if predicted is None:
            return
        rest = case.after(predicted, first.operation)
        for other in ranked(self._tested(rest), rest.unexplained, case.candidate.size)[:1]:
            if other.fit.reaches_floor and other.cause != first.cause:
                yield replace(
                    first,
                    fit=other.fit,
                    evidence=f"{first.evidence}; with {other.cause} as well, {case.falls_to(other.fit)}",
                )
                yield replace(
                    other,
                    evidence=f"beside {first.cause}: {other.evidence}",
                    doubt=max(other.doubt, _SECOND),
                    specific=min(other.specific, first.specific),
                )

    def _within_rounding(self) -> tuple[Diagnosis, ...]:
        case = self._case
        if case.row.differs and case.fit(case.reference).reaches_floor and ROUNDING.applies(case):
            return tuple(
                Diagnosis(one.cause, 1.0 - one.doubt, one.evidence, one.fix, one.fit.max_abs)
                for one in ROUNDING.test(case)
            )
        failed = case.row.systematic.failed if case.row.systematic else ()
        if any(part.part in _FOUND_ALONE for part in failed):
            return self._unknown()  # replayed on its own inputs, the row is off by more than rounding
        if case.own_inputs and not case.fit(case.reference).reaches_floor:
            self._note("no_cause", f"{case.key} is what its own inputs give: the error came in with them")
        else:
            self._note(
                "no_cause",
                f"{case.key} differs by no more than another order of summation would: "
                "there is no cause to look for; raise the tolerance, or compute both sides alike",
            )
        return ()

    def _unknown(self) -> tuple[Diagnosis, ...]:
        key = self._case.key
        self._note("no_cause", f"No cause that was tested explains {key}; to know more, {_record_next(self._case)}")
        return ()

    def _note(self, code: NoteCode, text: str) -> None:
        self.notes.append(Note(code, self._case.key, text))


_NOTHING_FITS = Fit(float("inf"), float("inf"), float("inf"))


def _cases(scene: Scene, place: int) -> list[Case]:
    """Return the case of the row, and of the module around it if that is one known operation."""
    row, outer = scene.rows[place], scene.graph.calls.around(place)
    cases = [Case(scene, place)]
    is_part = row.role == "input" or row.is_function
    if outer is None or not is_part or not outer.outputs:
        return cases
    around = Case(scene, outer.outputs[0])
    return [*cases, around] if around.row.differs and around.comparable and around.operations else cases


def _as_explanation(known: Diagnosis) -> Explanation:
    left = known.residual or 0.0
    return Explanation(
        cause=known.cause,
        fit=Fit(0.5, 0.5, left),
        evidence=known.evidence,
        fix=known.fix,
        implies=known.implies,
        doubt=1.0 - known.confidence,
    )


def _record_next(case: Case) -> str:
    """Return advice on what to record to find the cause."""
    if case.op is None:
        return "record op, attrs, inputs and parameters of the reference (fd.capture does), to compute it again"
    if not case.inputs and case.role != "input":
        return "record its inputs on both sides"
    if not case.operations:
        return "capture both sides with level='op' and params='all' to see what happens inside it"
    lone = [both.key for both in case.params.values() if both.candidate is None]
    if lone:
        return f"compare its weights: {', '.join(lone)} has no partner in the candidate"
    wrong = [both.key for both in case.params.values() if both.differs]
    if wrong:
        return f"compare the code of both sides there; {', '.join(wrong[:3])} differs, which does not explain all of it"
    return "compare the code of both sides there; its inputs and weights are what the reference has"
