"""Run the pairing strategies in turn, each on the tensors that earlier ones left."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import final

from firstdiff import plugins
from firstdiff.pairing import content, graphs, runs
from firstdiff.pairing.fingerprint import Fingerprints
from firstdiff.pairing.forms import Forms
from firstdiff.pairing.guesses import Guesses
from firstdiff.pairing.offsets import find_offset
from firstdiff.pairing.result import Match, PairingResult
from firstdiff.pairing.side import Side
from firstdiff.pairing.strategy import Findings, PairingOptions, Proposal, Situation, Strategy
from firstdiff.schema import Pairing
from firstdiff.trace import Trace


def pair_up(reference: Trace, candidate: Trace, options: PairingOptions | None = None) -> PairingResult:
    """Find which tensor of one trace is which of the other.

    >>> import numpy as np
    >>> ours = Trace.from_arrays({"0_query": np.zeros(3), "0_key": np.ones(3)})
    >>> theirs = Trace.from_arrays({"00.query": np.zeros(3)})
    >>> result = pair_up(ours, theirs)
    >>> result.pairs[0].pairing.method, len(result.missing)
    ('layer_stage', 1)

    reference, candidate: the two traces
    options: what the user has to say; a default one if left out
    """
    options = options or PairingOptions()
    ours = Side.of(reference)
    theirs = Side.of(candidate).counted_as(ours)
    prints = Fingerprints(reference), Fingerprints(candidate)
    offset, warnings = options.layer_offset, list[str]()
    if offset is None:
        offset, warnings = find_offset(ours, theirs, prints)
        options = replace(options, layer_offset=offset)
    warnings += _steps_moved(ours, theirs)
    board = _Board(ours, theirs, Forms(ours, theirs, offset), prints, options, warnings=warnings)
    for strategy in strategies(options):
        if board.reference.free and (board.candidate.free or strategy.revises):
            board.play(strategy)
    return board.result()


def _steps_moved(ours: Side, theirs: Side) -> list[str]:
    first = min((key.step for key in ours.keys), default=0)
    own = min((tensor.key.step for tensor in theirs.trace), default=0)
    if theirs.keys and theirs.keys[0].step != theirs.tensor(0).key.step:
        return [f"the candidate counts steps from {own}, the reference from {first}; they were compared one by one"]
    return []


def strategies(options: PairingOptions) -> tuple[Strategy, ...]:
    """The ways to try, in their order."""
    chosen: Iterable[Strategy] | None = options.strategies
    if chosen is None:
        chosen = (runs.STRATEGY, graphs.STRATEGY, content.REPEATED_STRATEGY, *plugins.loaded("pairing"))
    return tuple(sorted(chosen, key=lambda strategy: strategy.order))


@final
@dataclass
class _Board:
    reference: Side
    candidate: Side
    forms: Forms
    prints: tuple[Fingerprints, Fingerprints]
    options: PairingOptions
    matches: list[Match] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    guesses: Guesses = field(default_factory=Guesses)

    def play(self, strategy: Strategy) -> None:
        anchors = tuple(
            (match.reference[0], match.candidate[0])
            for match in self.matches
            if len(match.reference) == len(match.candidate) == 1
        )
        situation = Situation(self.reference, self.candidate, anchors, self.forms, self.prints, self.options)
        findings = strategy.propose(situation)
        self.warnings += findings.warnings
        self._release(findings.released)
        ours, theirs = self._accept(strategy.name, findings)
        self.reference = self.reference.without(ours | findings.apart[0])
        self.candidate = self.candidate.without(theirs | findings.apart[1])

    def _release(self, pairs: Collection[tuple[int, int]]) -> None:
        """Give up pairs of earlier strategies."""
        self.matches = [match for match in self.matches if (match.reference[0], match.candidate[0]) not in pairs]
        self.reference = self.reference.with_free({place for place, _ in pairs})
        self.candidate = self.candidate.with_free({other for _, other in pairs})

    def _accept(self, method: str, findings: Findings) -> tuple[set[int], set[int]]:
        """Take proposals from the surest on, as long as their tensors are free; the rest are guesses."""
        ours, theirs = set(self.reference.free), set(self.candidate.free)
        used: tuple[set[int], set[int]] = set(), set()
        for proposal in sorted(findings.proposals, key=lambda one: -one.confidence):
            free = ours.issuperset(proposal.reference) and theirs.issuperset(proposal.candidate)
            if free and proposal.confidence >= self.options.min_confidence:
                self.matches.append(self._match(method, proposal))
                ours.difference_update(proposal.reference)
                theirs.difference_update(proposal.candidate)
                used[0].update(proposal.reference)
                used[1].update(proposal.candidate)
            else:
                self.guesses.add(proposal)
        return used

    def _match(self, method: str, proposal: Proposal) -> Match:
        alternatives = tuple(str(self.candidate.tensor(place).key) for place in proposal.alternatives)
        pairing = Pairing(method, proposal.confidence, alternatives)
        return Match(proposal.reference, proposal.candidate, pairing, proposal.recipe)

    def result(self) -> PairingResult:
        """Return the pairs in the order of the reference, and the unpaired tensors."""
        ours = self.reference.all_but({place for match in self.matches for place in match.reference})
        theirs = self.candidate.all_but({place for match in self.matches for place in match.candidate})
        missing, extra = self.guesses.of(ours, theirs)
        pairs = tuple(sorted(self.matches, key=lambda match: match.reference))
        return PairingResult(ours.trace, theirs.trace, pairs, missing, extra, tuple(self.warnings), self.prints)
