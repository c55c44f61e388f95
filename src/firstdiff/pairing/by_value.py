"""Pair tensors by content: equal or similar values, whatever they are called; doubt pairs that values contradict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from firstdiff.pairing.agreement import repeated_taps
from firstdiff.pairing.fingerprints import EQUAL, NOISE, Fingerprints, Fit, first_copies, fits, fits_of_profiles, misfit
from firstdiff.pairing.layer_numbers import layers_left_out, offset_of, propose_offset
from firstdiff.pairing.name_forms import Forms
from firstdiff.pairing.names import op_kind
from firstdiff.pairing.strategy import Findings, Match, PairingResult, Proposal, Side, Situation, Strategy, grouped

_CLEAR, _SHARED, _RELATED = 0.9, 0.65, 0.5
_WHOLE_ALONE = 0.7  # the same values in all, in a layout that was not found
_PRODUCTS = {"linear", "conv"}  # a convolution over patches is a product of patches
_INPUTS, _OUTPUTS = frozenset({"input"}), frozenset({"output"})
_MASK = "mask"  # in the names of arguments
_CLEARLY = 4.0  # how much worse the next best must fit
_LEAST_NOISE = 1e-4  # misfit of another order of summation in float32, with room
_MOST_VALUES = 1 << 24  # that are read for profiles in all

Search = Callable[..., list[Fit]]
GroupOf = Callable[[Side, int], Hashable]


def _propose(situation: Situation) -> Findings:
    return _by_values(replace(situation, candidate=situation.candidate.without(repeated_taps(situation))))


def _by_values(situation: Situation) -> Findings:
    proposals: list[Proposal] = []
    taken: tuple[set[int], set[int]] = set(), set()
    first = _chosen(_found(situation, *_without_inputs(situation), fits, _same_role), _CLEAR)
    for proposal in [*first, *inputs_of_pairs(situation, first)]:
        proposals.append(proposal)
        if proposal.confidence >= situation.options.min_confidence:
            taken[0].update(proposal.reference)
            taken[1].update(proposal.candidate)
    taken[0].update(_copies_of_pairs(situation, taken[0], is_reference=True))
    taken[1].update(_copies_of_pairs(situation, taken[1], is_reference=False))
    proposals += _searched(situation, _SEARCHES, taken)
    return Findings(proposals, _offset_warning(situation, proposals))


def _searched(
    situation: Situation,
    searches: Iterable[tuple[Search, GroupOf, float]],
    taken: tuple[Collection[int], Collection[int]] = ((), ()),
) -> list[Proposal]:
    """Search free tensors in several ways, each among what the earlier ones left over."""
    used = set(taken[0]), set(taken[1])
    proposals: list[Proposal] = []
    for search, group_of, clear in searches:
        reference, candidate = situation.reference.without(used[0]), situation.candidate.without(used[1])
        if search is fits_of_profiles:  # which is blind to layouts, so that a copy would fit what was only moved
            reference = reference.without(_copies_of_pairs(situation, used[0], is_reference=True, of=_OUTPUTS))
            candidate = candidate.without(_copies_of_pairs(situation, used[1], is_reference=False, of=_OUTPUTS))
            reference, candidate = _small(reference, candidate)
        for proposal in _chosen(_found(situation, reference, candidate, search, group_of), clear):
            proposals.append(proposal)
            if proposal.confidence >= situation.options.min_confidence:
                used[0].update(proposal.reference)
                used[1].update(proposal.candidate)
    return proposals


def equal_values(situation: Situation) -> list[Proposal]:
    """Pair free tensors of one role that hold the same values."""
    return _searched(situation, ((fits, _same_role, _CLEAR), (fits_of_profiles, _same_role, _WHOLE_ALONE)))


def _found(situation: Situation, reference: Side, candidate: Side, search: Search, group_of: GroupOf) -> list[Fit]:
    groups = grouped(candidate.free, (group_of(candidate, place) for place in candidate.free))
    found: list[Fit] = []
    for group, places in grouped(reference.free, (group_of(reference, place) for place in reference.free)).items():
        if group in groups and (group_of is _same_role or _roles_differ(reference, places, candidate, groups[group])):
            found += search(situation.prints[0], places, situation.prints[1], groups[group])
    return found


def _small(reference: Side, candidate: Side) -> tuple[Side, Side]:
    """Both sides without the tensors that are too large to be read whole, with so many of them."""
    bound = _MOST_VALUES // max(len(reference.free) + len(candidate.free), 1)

    def large(side: Side) -> set[int]:
        return {place for place in side.free if (side.sizes[place] or 0) > bound}

    return reference.without(large(reference)), candidate.without(large(candidate))


def _same_role(side: Side, place: int) -> Hashable:
    key = side.keys[place]
    return key.role, key.step, key.rank, side.sizes[place]


def _same_kind(side: Side, place: int) -> Hashable:
    """Group by role, with inputs and outputs as one: the input of one module is the output of another."""
    key = side.keys[place]
    kind = "activation" if key.role in ("input", "output") else key.role
    return kind, key.step, key.rank, side.sizes[place]


def _roles_differ(reference: Side, places: list[int], candidate: Side, others: list[int]) -> bool:
    """True if the tensors have more than one role, so that pairing across roles can find more."""
    return len({reference.keys[place].role for place in places} | {candidate.keys[place].role for place in others}) > 1


def _without_inputs(situation: Situation) -> tuple[Side, Side]:
    reference, candidate = situation.reference, situation.candidate
    return reference.without(_inputs(reference)), candidate.without(_inputs(candidate))


def _inputs(side: Side) -> set[int]:
    return {place for place in side.free if side.keys[place].role == "input"}


def _copies_of_pairs(
    situation: Situation, taken: set[int], *, is_reference: bool, of: frozenset[str] = _INPUTS
) -> set[int]:
    """Free tensors that hold the values of an output which is paired: another partner would only hide that one.

    of: their roles
    """
    number = 0 if is_reference else 1
    side, prints = (situation.reference, situation.candidate)[number], situation.prints[number]
    paired = {pair[number] for pair in situation.anchors} | taken
    paired = {place for place in paired if side.keys[place].role == "output"}
    free = {place for place in side.free if side.keys[place].role in of} - taken
    first = first_copies(side, prints, paired | free)
    known = {first[place] for place in paired if place in first}
    return {place for place in free if first.get(place, place) in known}


def inputs_of_pairs(situation: Situation, found: Iterable[Proposal]) -> list[Proposal]:
    """Pair what goes into two modules that are a pair: the same slots, or the only input of each."""
    reference, candidate = (_inputs_by_call(side) for side in (situation.reference, situation.candidate))
    calls = {_call(situation.reference, place): _call(situation.candidate, other) for place, other in situation.anchors}
    for one in found:
        if one.confidence >= situation.options.min_confidence:
            calls[_call(situation.reference, one.reference[0])] = _call(situation.candidate, one.candidate[0])
    proposals = []
    for call, other in calls.items():
        mine, yours = reference.get(call, {}), candidate.get(other, {})
        slots = [(slot, slot) for slot in mine if slot in yours]
        if not slots and len(mine) == len(yours) == 1:
            slots = [(next(iter(mine)), next(iter(yours)))]
        for slot, same in slots:
            place, partner = mine[slot], yours[same]
            same_size = situation.reference.sizes[place] == situation.candidate.sizes[partner]
            if same_size and are_one_kind(situation, place, partner):
                proposals.append(
                    Proposal((place,), (partner,), _CLEAR, why="the same input of modules that are a pair")
                )
        masks = [[at for slot, at in given.items() if _MASK in slot] for given in (mine, yours)]
        if all(len(places) == 1 for places in masks) and may_hide_the_same(situation, masks[0][0], masks[1][0]):
            proposals.append(
                Proposal((masks[0][0],), (masks[1][0],), _CLEAR, why="the only masks of modules that are a pair")
            )
    return proposals


def may_hide_the_same(situation: Situation, place: int, partner: int) -> bool:
    """True for masks of one shape, where those that are the same for all texts or heads may have fewer axes."""
    shapes = [
        tuple(n for n in side.tensor(at).values().shape if n != 1)
        for side, at in ((situation.reference, place), (situation.candidate, partner))
    ]
    shorter = min(map(len, shapes))
    return shorter > 1 and shapes[0][-shorter:] == shapes[1][-shorter:]


def are_one_kind(situation: Situation, place: int, partner: int) -> bool:
    """True for modules that take the same thing in; a dropout gives what the layer before it gave."""
    sides = situation.reference, situation.candidate
    kinds = [op_kind(side.tensor(at).record.op) for side, at in zip(sides, (place, partner), strict=True)]
    return None not in kinds and (kinds[0] == kinds[1] or set(kinds) == _PRODUCTS)


def _inputs_by_call(side: Side) -> dict[Hashable, dict[str, int]]:
    found: dict[Hashable, dict[str, int]] = defaultdict(dict)
    for place in side.free:
        if side.keys[place].role == "input":
            found[_call(side, place)][side.keys[place].slot] = place
    return found


def _call(side: Side, place: int) -> Hashable:
    key = side.keys[place]
    return key.name, key.call, key.step, key.rank


def _chosen(found: list[Fit], clear: float) -> list[Proposal]:
    """From the best fit on; tensors whose values are all equal are taken in order."""
    return list(_best_first(found, clear))


def _best_first(found: list[Fit], clear: float) -> Iterator[Proposal]:
    by_ours, by_theirs = _by(found, 0), _by(found, 1)
    taken: tuple[set[int], set[int]] = set(), set()
    floor = _noise(found)
    for fit in sorted(found, key=lambda fit: (max(fit.misfit, floor), fit.reference, fit.candidate)):
        if fit.reference in taken[0] or fit.candidate in taken[1]:
            continue
        row = [other for other in by_ours[fit.reference] if other.candidate != fit.candidate]
        column = [other for other in by_theirs[fit.candidate] if other.reference != fit.reference]
        rivals = [other for other in (*row, *column) if other.misfit <= _CLEARLY * max(fit.misfit, floor)]
        taken[0].add(fit.reference)
        taken[1].add(fit.candidate)
        others = tuple(other.candidate for other in row if other in rivals)
        yield Proposal(
            (fit.reference,), (fit.candidate,), _confidence(fit, rivals, clear), others, _why(fit.misfit, rivals)
        )


def _noise(found: list[Fit]) -> float:
    """Return the misfit below which tensors are equal: two runs in float32 tell apart what bf16 would hide."""
    best: dict[int, float] = {}
    for fit in found:
        best[fit.candidate] = min(fit.misfit, best.get(fit.candidate, fit.misfit))
    return float(np.clip(_CLEARLY * np.median([*best.values()]), _LEAST_NOISE, NOISE)) if best else NOISE


def _by(found: Iterable[Fit], side: int) -> dict[int, list[Fit]]:
    groups: dict[int, list[Fit]] = defaultdict(list)
    for fit in found:
        groups[int(fit[side])].append(fit)
    return groups


def _confidence(fit: Fit, rivals: list[Fit], clear: float) -> float:
    if fit.misfit > EQUAL:
        return _RELATED
    if not rivals:
        return clear
    return min(clear, _SHARED) if all(rival.misfit <= EQUAL for rival in rivals) else _RELATED


def _why(misfit: float, rivals: list[Fit]) -> str:
    said = "equal values" if misfit <= EQUAL else "similar values"
    return f"{said}, which others share" if rivals else said


def _offset_warning(situation: Situation, proposals: list[Proposal]) -> tuple[str, ...]:
    sure = [one for one in proposals if one.confidence >= situation.options.min_confidence]
    if not sure:
        return ()
    reference, candidate = situation.forms.reference, situation.forms.candidate
    offsets = (offset_of(reference[one.reference[0]], candidate[one.candidate[0]]) for one in sure)
    return propose_offset(offsets, "have the values of one")


_SEARCHES: tuple[tuple[Search, GroupOf, float], ...] = (
    (fits, _same_role, _CLEAR),
    (fits, _same_kind, _CLEAR),
    (fits_of_profiles, _same_role, _WHOLE_ALONE),
    (fits_of_profiles, _same_kind, _WHOLE_ALONE),
)
STRATEGY = Strategy("content", 40, _propose)
REPEATED_STRATEGY = Strategy("content", 55, _by_values)


_FAR_BETTER = 10.0
_UNDOUBTED = frozenset({"map", "manual"})


@dataclass(frozen=True)
class _Case:
    """The two sides, their fingerprints, and which pair each tensor is in."""

    reference: Side
    candidate: Side
    reference_prints: Fingerprints
    candidate_prints: Fingerprints
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
        for fit in fits(
            case.reference_prints,
            list(of_reference),
            case.candidate_prints,
            others.get(circumstances, []),
            within=EQUAL,
        ):
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
    own = misfit(case.reference_prints, place, case.candidate_prints, partner) if sizes[0] == sizes[1] else 1.0
    return own >= _FAR_BETTER * max(fit.misfit, NOISE)


def _with_doubt(match: Match, candidate: Side, fit: Fit) -> Match:
    better = str(candidate.tensor(fit.candidate).key)
    alternatives = (better, *(key for key in match.pairing.alternatives if key != better))
    pairing = replace(match.pairing, alternatives=alternatives)
    return replace(match, pairing=pairing, doubt=f"the values of {better} fit far better")


def _swaps(case: _Case, doubted: Iterable[Fit]) -> list[str]:
    """Two pairs, each of which fits the other's partner."""
    better = {fit.reference: fit.candidate for fit in doubted}
    partner = {reference: candidate for candidate, reference in case.partner_of_candidate.items()}
    said = []
    for reference, candidate in better.items():
        other = case.partner_of_candidate.get(candidate)
        if other is not None and reference < other and better.get(other) == partner[reference]:
            names = (str(case.reference.tensor(place).key) for place in (reference, other))
            said.append(f"{' and '.join(names)} seem to be swapped in the candidate; they were compared by name")
    return said


def _offsets(case: _Case, doubted: Iterable[Fit], agreeing: Iterable[int]) -> tuple[str, ...]:
    """Tell layers that are counted differently from one that a side has more than the other.

    agreeing: places in the reference of the pairs that nobody doubts
    """
    forms = Forms(case.reference, case.candidate)
    votes = [
        (offset_of(reference, forms.candidate[fit.candidate]), reference.layers[0] if reference.layers else 0)
        for fit in doubted
        for reference in [forms.reference[fit.reference]]
    ]
    sound = [forms.reference[place].layers[0] for place in agreeing if forms.reference[place].layers]
    return layers_left_out(votes, sound) or propose_offset((offset for offset, _ in votes), "fit one")
