"""Report pairs whose values contradict them, since another tensor fits far better; nothing is paired anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from firstdiff.pairing.fingerprint import Fingerprints
from firstdiff.pairing.fit import EQUAL, NOISE, Fit, fits, misfit
from firstdiff.pairing.forms import Forms
from firstdiff.pairing.offsets import layers_left_out, offset_of, propose_offset
from firstdiff.pairing.result import Match, PairingResult
from firstdiff.pairing.side import Side, grouped

_FAR_BETTER = 10.0
_UNDOUBTED = frozenset({"map", "manual"})


@dataclass(frozen=True)
class _Case:
    """The two sides, their fingerprints, and which pair each tensor is in."""

    reference: Side
    candidate: Side
    ours: Fingerprints
    theirs: Fingerprints
    partner_of_candidate: Mapping[int, int]


def doubt(result: PairingResult, suspects: Iterable[int] | None = None) -> PairingResult:
    """Look at the values of pairs that do not match, and say where another tensor fits far better.

    The pairs stay as they are: `alternatives` get the tensor that fits, `doubt` and the warnings say so.

    >>> import numpy as np
    >>> from firstdiff.pairing import pair_up
    >>> from firstdiff.trace import Trace
    >>> x, y = np.random.default_rng(0).standard_normal((2, 100))
    >>> swapped = pair_up(Trace.from_arrays({"q": x, "k": y}), Trace.from_arrays({"q": y, "k": x}))
    >>> [(match.pairing.method, match.pairing.alternatives) for match in doubt(swapped).pairs]
    [('exact', ('k',)), ('exact', ('q',))]

    result: what `pair_up` found
    suspects: places in `result.pairs` of the pairs to look at, such as those that mismatch; all if left out
    """
    reference, candidate = Side.of(result.reference), Side.of(result.candidate)
    pairs = list(result.pairs)
    lone = [match for match in pairs if len(match.reference) == len(match.candidate) == 1]
    case = _Case(
        reference,
        candidate,
        *(result.fingerprints or (Fingerprints(result.reference), Fingerprints(result.candidate))),
        {match.candidate[0]: match.reference[0] for match in lone},
    )
    chosen = range(len(pairs)) if suspects is None else sorted(set(suspects))
    doubted = _doubted(case, {place: pairs[place] for place in chosen if _may_be_doubted(pairs[place])})
    agreeing = [pairs[place].reference[0] for place in sorted(set(range(len(pairs))) - set(chosen))]
    for place, fit in doubted.items():
        pairs[place] = _with_doubt(pairs[place], candidate, fit)
    warnings = (*result.warnings, *_swaps(case, doubted.values()), *_offsets(case, doubted.values(), agreeing))
    return replace(result, pairs=tuple(pairs), warnings=warnings)


def _may_be_doubted(match: Match) -> bool:
    return len(match.reference) == len(match.candidate) == 1 and match.pairing.method not in _UNDOUBTED


def _doubted(case: _Case, suspects: Mapping[int, Match]) -> dict[int, Fit]:
    """The pairs, by place, for which another candidate fits far better, and that fit."""
    found: dict[int, Fit] = {}
    everyone = range(len(case.candidate.trace))
    others = grouped(everyone, (_circumstances(case.candidate, place) for place in everyone))
    places = grouped(suspects, (_circumstances(case.reference, match.reference[0]) for match in suspects.values()))
    for circumstances, group in places.items():
        of_reference = {suspects[place].reference[0]: place for place in group}
        for fit in fits(case.ours, list(of_reference), case.theirs, others.get(circumstances, []), within=EQUAL):
            place = of_reference[fit.reference]
            partner = suspects[place].candidate[0]
            if fit.candidate != partner and (place not in found or fit.misfit < found[place].misfit):
                found[place] = fit
    return {place: fit for place, fit in sorted(found.items()) if _is_far_better(case, suspects[place], fit)}


def _circumstances(side: Side, place: int) -> tuple[object, ...]:
    key = side.keys[place]
    return key.role, key.step, key.rank, side.sizes[place]


def _is_far_better(case: _Case, match: Match, fit: Fit) -> bool:
    (place,), (partner,) = match.reference, match.candidate
    sizes = case.reference.sizes[place], case.candidate.sizes[partner]
    own = misfit(case.ours, place, case.theirs, partner) if sizes[0] == sizes[1] else 1.0
    return own >= _FAR_BETTER * max(fit.misfit, NOISE)


def _with_doubt(match: Match, candidate: Side, fit: Fit) -> Match:
    better = str(candidate.tensor(fit.candidate).key)
    alternatives = (better, *(key for key in match.pairing.alternatives if key != better))
    pairing = replace(match.pairing, alternatives=alternatives)
    return replace(match, pairing=pairing, doubt=f"the values of {better} fit far better")


def _swaps(case: _Case, doubted: Iterable[Fit]) -> list[str]:
    """Two pairs, each of which fits the other's partner."""
    better = {fit.reference: fit.candidate for fit in doubted}
    partner = {ours: theirs for theirs, ours in case.partner_of_candidate.items()}
    said = []
    for ours, theirs in better.items():
        other = case.partner_of_candidate.get(theirs)
        if other is not None and ours < other and better.get(other) == partner[ours]:
            names = (str(case.reference.tensor(place).key) for place in (ours, other))
            said.append(f"{' and '.join(names)} seem to be swapped in the candidate; they were compared by name")
    return said


def _offsets(case: _Case, doubted: Iterable[Fit], agreeing: Iterable[int]) -> tuple[str, ...]:
    """Tell layers that are counted differently from one that a side has more than the other.

    agreeing: places in the reference of the pairs that nobody doubts
    """
    forms = Forms(case.reference, case.candidate)
    votes = [
        (offset_of(ours, forms.candidate[fit.candidate]), ours.layers[0] if ours.layers else 0)
        for fit in doubted
        for ours in [forms.reference[fit.reference]]
    ]
    sound = [forms.reference[place].layers[0] for place in agreeing if forms.reference[place].layers]
    return layers_left_out(votes, sound) or propose_offset((offset for offset, _ in votes), "fit one")
