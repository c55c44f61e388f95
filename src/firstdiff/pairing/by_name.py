"""Pair tensors by their names: equal keys, layer and stage, other dialects, fused parts, the only ones left."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from firstdiff import dtypes
from firstdiff.pairing.better_values import unless_beaten, unless_parts_are_others
from firstdiff.pairing.generated_names import FunctionNames, GraphNames
from firstdiff.pairing.name_forms import Form
from firstdiff.pairing.names import AS_COUNTED, FUSED, LAST_PART, LayerNumbers
from firstdiff.pairing.strategy import Findings, Proposal, Side, Situation, Strategy, grouped
from firstdiff.trace import Key
from firstdiff.trace.order import layer_and_stage

_UNCLEAR = 0.4
_MOST_ALTERNATIVES = 8


@dataclass(frozen=True, slots=True)
class Rule:
    """The confidence of pairs by equal identities.

    confidence: of a pair whose identity is unique on both sides
    other_size: the same, where the two tensors differ in their number of elements
    in_order: of the pairs when both sides have it equally often and order decides; None: order does not decide
    why: what the identity is, for guesses
    """

    confidence: float
    other_size: float
    why: str
    in_order: float | None = None


def pair_by_identity(
    situation: Situation, reference: Mapping[int, Hashable], candidate: Mapping[int, Hashable], rule: Rule
) -> Findings:
    """Pair free tensors of equal identity; ranks are told apart, or put together where the runs had different ones."""
    ref = grouped(reference, reference.values())
    cand = grouped(candidate, candidate.values())
    proposals = [
        proposal
        for identity, places in ref.items()
        if identity in cand
        for proposal in _pair_group(situation, places, cand[identity], rule)
    ]
    functions, graphs = FunctionNames(situation), GraphNames(situation)
    proposals = [
        one
        if all(names.tell(one.reference[0], one.candidate[0]) for names in (functions, graphs))
        else replace(one, confidence=_UNCLEAR)
        for one in proposals
    ]
    repeated = sum(1 for proposal in proposals if rule.in_order and proposal.confidence == rule.in_order)
    if not repeated:
        return Findings(proposals)
    told = "1 pair has" if repeated == 1 else f"{repeated} pairs have"
    return Findings(proposals, (f"{told} {rule.why} that occurs more than once; they were paired in order",))


def circumstances(key: Key) -> tuple[Hashable, ...]:
    """Return the fields of a key that must agree beside the name; the rank need not."""
    return key.role, key.slot, key.call, key.step


def _pair_group(situation: Situation, ref: list[int], cand: list[int], rule: Rule) -> Iterator[Proposal]:
    reference, candidate = situation.reference, situation.candidate
    our_ranks = grouped(ref, (reference.keys[place].rank for place in ref))
    their_ranks = grouped(cand, (candidate.keys[place].rank for place in cand))
    lone = all(len(places) == 1 for ranks in (our_ranks, their_ranks) for places in ranks.values())
    if reference.world != candidate.world and lone:
        yield Proposal(
            tuple(our_ranks[rank][0] for rank in sorted(our_ranks)),
            tuple(their_ranks[rank][0] for rank in sorted(their_ranks)),
            rule.confidence,
            why=rule.why,
        )
        return
    for rank in sorted(our_ranks.keys() & their_ranks.keys()):
        yield from _pair_rank(situation, our_ranks[rank], their_ranks[rank], rule)


def _pair_rank(situation: Situation, reference: list[int], candidate: list[int], rule: Rule) -> Iterator[Proposal]:
    if len(reference) == len(candidate) == 1:
        sizes = situation.reference.size(reference), situation.candidate.size(candidate)
        fits = None in sizes or sizes[0] == sizes[1]
        confidence = rule.confidence if fits else rule.other_size
        if not fits and confidence < 1.0 and _is_later_argument(situation.reference.keys[reference[0]]):
            confidence = _UNCLEAR
        yield Proposal((reference[0],), (candidate[0],), confidence, why=rule.why)
        return
    in_order = rule.in_order is not None and len(reference) == len(candidate)
    confidence = rule.in_order if in_order and rule.in_order is not None else _UNCLEAR
    why = f"{rule.why}, shared by {max(len(reference), len(candidate))} tensors of one side"
    for turn, place in enumerate(reference):
        partner = candidate[min(turn, len(candidate) - 1)]
        others = tuple(other for other in candidate[: _MOST_ALTERNATIVES + 1] if other != partner)
        yield Proposal((place,), (partner,), confidence, others[:_MOST_ALTERNATIVES], why)


def _is_later_argument(key: Key) -> bool:
    """True for an argument known by its number alone, which is another one in other code: a mask, or what it is of."""
    return key.role == "input" and key.slot.isdigit() and key.slot != "0"


_SAME_KEY = Rule(confidence=1.0, other_size=1.0, why="the same key", in_order=0.9)


def _propose_same_key(situation: Situation) -> Findings:
    reference, candidate = situation.reference, situation.candidate
    layers, numbered = situation.layers, candidate.numbered
    ref = {place: _without_rank(reference.keys[place]) for place in reference.free}
    cand = {place: _without_rank(candidate.keys[place]) for place in candidate.free}
    if layers:
        moved = {place: layers.renamed(key.name, numbered=numbered) for place, key in cand.items()}
        cand = {place: replace(cand[place], name=name) for place, name in moved.items() if name is not None}
    cand |= _renumbered(situation, ref, cand)
    return unless_beaten(situation, pair_by_identity(situation, ref, cand, _SAME_KEY), of_other_size=True)


def _renumbered(situation: Situation, ref: Mapping[int, Key], cand: Mapping[int, Key]) -> dict[int, Key]:
    """Return the keys of positional inputs by the reference's numbers, where one side drops those it does not use.

    torch.export does so. Inputs tell it that are of another kind than those of their number.
    """
    reference, candidate = _positional(ref), _positional(cand)
    found: dict[int, Key] = {}
    for call in reference.keys() & candidate.keys():
        mine = [_kind_of(situation.reference, place) for place in reference[call]]
        yours = [_kind_of(situation.candidate, place) for place in candidate[call]]
        if len(mine) == len(yours) or all(one == other for one, other in zip(mine, yours, strict=False)):
            continue
        fewer = len(yours) < len(mine)
        places = _within(yours, mine) if fewer else _within(mine, yours)
        if places is None:
            continue
        slots = [ref[place].slot for place in reference[call]]
        names = {n: slots[at] for n, at in enumerate(places)} if fewer else dict(zip(places, slots, strict=True))
        for number, place in enumerate(candidate[call]):
            found[place] = replace(cand[place], slot=names.get(number, f"{number}, unused"))
    return found


def _positional(keys: Mapping[int, Key]) -> dict[Hashable, list[int]]:
    """Return places of the inputs that are given by position, by their call and in order."""
    places = sorted(
        (place for place, key in keys.items() if key.role == "input" and key.slot.isdecimal()),
        key=lambda place: int(keys[place].slot),
    )
    return grouped(places, (replace(keys[place], slot="") for place in places))


def _kind_of(side: Side, place: int) -> tuple[str, tuple[int, ...]] | None:
    source = side.tensor(place).source
    return None if source is None else (dtypes.kind_of(source.dtype), source.shape)


def _within(short: Sequence[object], long: Sequence[object]) -> list[int] | None:
    """Return where the items of one list are in another, in order; None if some are not."""
    found: list[int] = []
    for item in short:
        start = found[-1] + 1 if found else 0
        at = next((number for number in range(start, len(long)) if long[number] == item), None)
        if at is None:
            return None
        found.append(at)
    return found


def _without_rank(key: Key) -> Key:
    return replace(key, rank=0) if key.rank else key


EXACT_STRATEGY = Strategy("exact", 10, _propose_same_key)


_SAME_STAGE = Rule(confidence=0.98, other_size=0.98, why="the same layer and stage")
_SEPARATORS = re.compile(r"[_.\-\s/]+")


def _propose_same_stage(situation: Situation) -> Findings:
    reference = _stage_identities(situation.reference, AS_COUNTED)
    candidate = _stage_identities(situation.candidate, situation.layers)
    return pair_by_identity(situation, reference, candidate, _SAME_STAGE)


def _stage_identities(side: Side, layers: LayerNumbers) -> dict[int, Hashable]:
    """Layer, stage and the rest, for each free tensor whose name has them; a number that counts tensors is no layer."""
    if side.numbered:
        return {}
    found: dict[int, Hashable] = {}
    for place in side.free:
        key = side.keys[place]
        if told := layer_and_stage(key.name):
            stage = _SEPARATORS.sub("_", told.stage).strip("_").lower()
            found[place] = (layers.of(told.layer), stage, *circumstances(key))
    return found


LAYER_STAGE_STRATEGY = Strategy("layer_stage", 20, _propose_same_stage)


_SAME_FORM = Rule(confidence=0.95, other_size=0.8, why="the same name in other words")
_LAST_PART = Rule(confidence=0.85, other_size=0.5, why="a module and its last part")
_FUSED = Rule(confidence=0.9, other_size=0.7, why="fused on one side, in parts on the other")

Identity = tuple[Form, tuple[Hashable, ...]]
Places = tuple[int, ...]


def _propose_same_form(situation: Situation) -> Findings:
    reference, candidate = _form_identities(situation)
    return unless_beaten(situation, pair_by_identity(situation, reference, candidate, _SAME_FORM))


def _propose_last_part(situation: Situation) -> Findings:
    """A module's output, where the other side only has that of its last part."""
    sides = zip((situation.reference, situation.candidate), _form_identities(situation), strict=True)
    reference, candidate = (
        {place: (_last_part(form), rest) for place, (form, rest) in identities.items() if _is_output(side, place)}
        for side, identities in sides
    )
    return unless_beaten(situation, pair_by_identity(situation, reference, candidate, _LAST_PART))


def _propose_fused(situation: Situation) -> Findings:
    reference, candidate = situation.reference, situation.candidate
    ref, cand = _form_identities(situation)
    found = [
        *_wholes_and_parts(reference, candidate, ref, cand),
        *((parts, whole) for whole, parts in _wholes_and_parts(candidate, reference, cand, ref)),
    ]
    proposals = [_proposed(situation, *sides) for sides in found if not _is_one_part(situation, *sides)]
    return Findings(unless_parts_are_others(situation, proposals))


def _wholes_and_parts(
    fused: Side, parted: Side, wholes: dict[int, Identity], parts: dict[int, Identity]
) -> Iterator[tuple[Places, Places]]:
    """Rank by rank; all ranks at once where the runs had different ones."""
    together = fused.world != parted.world

    def ranked(side: Side, identities: dict[int, Identity]) -> dict[tuple[Identity, int], list[int]]:
        ranks = (0 if together else side.keys[place].rank for place in identities)
        return grouped(identities, zip(identities.values(), ranks, strict=True))

    parts_of = ranked(parted, parts)
    for ((form, rest), rank), places in ranked(fused, wholes).items():
        found = [parts_of.get(((replace(form, part=part), rest), rank), []) for part in FUSED.get(form.part, ())]
        groups = [places, *found]
        if found and all(groups) and all(_are_shards(group, side) for group, side in _sides(groups, fused, parted)):
            yield _by_rank(places, fused), tuple(place for group in found for place in _by_rank(group, parted))


def _sides(groups: list[list[int]], fused: Side, parted: Side) -> Iterator[tuple[list[int], Side]]:
    return zip(groups, [fused, *[parted] * (len(groups) - 1)], strict=True)


def _are_shards(places: list[int], side: Side) -> bool:
    return len({side.keys[place].rank for place in places}) == len(places)


def _by_rank(places: list[int], side: Side) -> Places:
    return tuple(sorted(places, key=lambda place: side.keys[place].rank))


def _is_one_part(situation: Situation, reference: Places, candidate: Places) -> bool:
    """True for what has the size of each of its parts: it is called so, and is none but one of them."""
    sizes = (
        [situation.reference.sizes[place] for place in reference],
        [situation.candidate.sizes[place] for place in candidate],
    )
    is_whole_run = situation.reference.world == situation.candidate.world == 1
    size = sizes[0][0]
    return is_whole_run and {*sizes[0], *sizes[1]} == {size} and size is not None and size > 1


def _proposed(situation: Situation, reference: Places, candidate: Places) -> Proposal:
    sizes = situation.reference.size(reference), situation.candidate.size(candidate)
    fits = None in sizes or sizes[0] == sizes[1]
    return Proposal(reference, candidate, _FUSED.confidence if fits else _FUSED.other_size, why=_FUSED.why)


def _form_identities(situation: Situation) -> tuple[dict[int, Identity], dict[int, Identity]]:
    reference, candidate = situation.reference, situation.candidate
    ref, cand = situation.forms.reference, situation.forms.candidate
    return (
        {place: (ref[place], circumstances(reference.keys[place])) for place in reference.free},
        {place: (cand[place], circumstances(candidate.keys[place])) for place in candidate.free},
    )


def _is_output(side: Side, place: int) -> bool:
    """A module and its last part have neither inputs nor weights in common."""
    return side.keys[place].role == "output" and not side.keys[place].name.endswith((".weight", ".bias"))


def _last_part(form: Form) -> Form:
    return replace(form, part=LAST_PART.get(form.part, form.part))


NORMALISED_STRATEGY = Strategy("normalised", 30, _propose_same_form)
LAST_PART_STRATEGY = Strategy("normalised", 31, _propose_last_part)
FUSED_STRATEGY = Strategy("normalised", 32, _propose_fused)


def _propose_lone(situation: Situation) -> Findings:
    reference, candidate = situation.reference, situation.candidate
    if len(reference.trace) != 1 or len(candidate.trace) != 1:
        return Findings()
    ref, cand = reference.tensor(0).key, candidate.tensor(0).key
    said = f"{ref} and {cand} are paired as the only tensor of each side, though their names differ"
    return Findings((Proposal((0,), (0,), 0.9, why="the only tensor of each side"),), (said,))


LONE_STRATEGY = Strategy("order", 35, _propose_lone)
